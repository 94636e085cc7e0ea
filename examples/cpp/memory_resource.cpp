// std::pmr in an array: strings in vectors in maps, all in one heap and none in the system's.
//
//     c++ -std=c++17 memory_resource.cpp -lrtalloc -pthread

#include <rtalloc.hpp>

#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

static rtalloc::static_heap<rtalloc::tlsf, (256 << 10)> heap;

int main() {
    // A container without a resource fails instead of taking memory from elsewhere.
    std::pmr::set_default_resource(std::pmr::null_memory_resource());

    // Several threads share it. Any type with lock and unlock works; for deadlines, use a lock with a priority ceiling.
    rtalloc::synchronized_resource<rtalloc::tlsf, std::mutex> resource(heap);
    {
        std::pmr::map<int, std::pmr::vector<std::pmr::string>> words(&resource);
        for (int key = 0; key < 3; ++key) words[key];
        std::thread workers[3];
        for (int key = 0; key < 3; ++key) {
            workers[key] = std::thread([&words, key] {
                for (int word = 0; word < 100; ++word) words.at(key).emplace_back("a string that is too long to be inside");
            });
        }
        for (auto& worker : workers) worker.join();
        std::size_t count = 0;
        for (const auto& [key, list] : words) count += list.size();
        std::printf("words: %zu, live blocks: more than 300: %s\n", count, heap.stats().live_blocks > 300 ? "yes" : "no");
    }
    std::printf("live blocks: %zu\n", heap.stats().live_blocks);

    try {
        std::pmr::vector<double> samples(1'000'000, 0.0, &resource);
    } catch (const std::bad_alloc& refused) {
        std::printf("refused: %s\n", refused.what());
    }
}
