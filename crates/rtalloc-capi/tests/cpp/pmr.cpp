// std::pmr in heaps: containers, stacked resources, refusals, alignment, several threads.

#include "expect.hpp"

#if !defined(__cpp_lib_memory_resource)
int main() { std::puts("pmr: this standard library has no memory resources"); }
#else

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

alignas(64) static std::byte memory[1 << 20];

/// Fails on every request: no memory may come from elsewhere.
struct forbidden final : std::pmr::memory_resource {
    void* do_allocate(std::size_t, std::size_t) override {
        EXPECT(!"a request that was not asked of the heap");
        return nullptr;
    }
    void do_deallocate(void*, std::size_t, std::size_t) override {}
    bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

template <class A> void containers() {
    rtalloc::heap<A> heap(memory);
    rtalloc::memory_resource<A> resource(heap);
    {
        std::pmr::vector<std::pmr::string> words(&resource);
        std::pmr::map<int, std::pmr::vector<int>> rows(&resource);
        std::pmr::unordered_map<std::pmr::string, int> counts(&resource);
        for (int number = 0; number < 200; ++number) {
            words.emplace_back(50, static_cast<char>('a' + number % 26));
            rows[number % 10].push_back(number);
            ++counts[words.back()];
        }
        // The elements have the resource of their container.
        EXPECT(words[0].get_allocator().resource() == &resource);
        EXPECT(rows[3].get_allocator().resource() == &resource);
        EXPECT(rows[3].size() == 20 && counts.size() == 26 && words[27] == std::string(50, 'b').c_str());
        EXPECT(!heap.check());
    }
    EXPECT(live_blocks(heap) == 0);
}

void resources_on_resources() {
    rtalloc::heap<rtalloc::tlsf> heap(memory);
    rtalloc::memory_resource<rtalloc::tlsf> resource(heap);
    {
        std::pmr::monotonic_buffer_resource arena(1024, &resource);
        std::pmr::unsynchronized_pool_resource pool(&arena);
        std::pmr::vector<std::pmr::vector<int>> rows(&pool);
        for (int row = 0; row < 50; ++row) rows.emplace_back(20, row);
        EXPECT(rows[49][19] == 49 && live_blocks(heap) > 0);
        // A polymorphic allocator passes itself to the objects it constructs.
        std::pmr::polymorphic_allocator<std::pmr::string> strings(&resource);
        std::pmr::string* text = strings.allocate(1);
        strings.construct(text, "a string that is too long to be inside the object");
        EXPECT(text->get_allocator().resource() == &resource);
        std::destroy_at(text);
        strings.deallocate(text, 1);
    }
    EXPECT(live_blocks(heap) == 0);
}

void refusals() {
    rtalloc::memory_resource<rtalloc::tlsf> resource(memory, 8 << 10);
    EXPECT_THROW(resource.allocate(1 << 20), std::bad_alloc);
    // An alignment that the heap does not support.
    EXPECT_THROW(resource.allocate(16, 1 << 20), rtalloc::bad_alloc);
    try {
        static_cast<void>(resource.allocate(16, 1 << 20));
    } catch (const rtalloc::bad_alloc& refused) {
        EXPECT(refused.why() == RT_ERROR_ALIGNMENT && std::string(refused.what()).find("alignment") == 3);
    }
    for (std::size_t align = 1; align <= 1024; align *= 2) {
        void* block = resource.allocate(100, align);
        EXPECT(reinterpret_cast<std::uintptr_t>(block) % align == 0);
        resource.deallocate(block, 100, align);
    }
    // Zero bytes have a unique address.
    void* nothing = resource.allocate(0);
    void* more = resource.allocate(0);
    EXPECT(nothing != nullptr && nothing != more);
    resource.deallocate(nothing, 0);
    resource.deallocate(more, 0);

    std::pmr::vector<int> numbers(&resource);
    EXPECT_THROW(
        [&] {
            for (;;) numbers.push_back(1);
        }(),
        std::bad_alloc);
    EXPECT(numbers.size() >= 256);

    rtalloc::memory_resource<rtalloc::tlsf> other(memory + (512 << 10), 8 << 10);
    EXPECT(resource.is_equal(resource) && !resource.is_equal(other));
    EXPECT_THROW((rtalloc::memory_resource<rtalloc::tlsf>(memory, 10)), std::system_error);
}

void threads() {
    rtalloc::heap<rtalloc::tlsf> heap(memory);
    rtalloc::synchronized_resource<rtalloc::tlsf, std::mutex> resource(heap);
    std::atomic<int> sum = 0;
    std::vector<std::thread> workers;
    for (int worker = 0; worker < 4; ++worker) {
        workers.emplace_back([&, worker] {
            for (int round = 0; round < 200; ++round) {
                std::pmr::vector<std::pmr::string> words(&resource);
                for (int word = 0; word < 20; ++word) words.emplace_back(40 + word, static_cast<char>('a' + worker));
                for (const auto& word : words) sum += word.back() == 'a' + worker ? 1 : 0;
            }
        });
    }
    for (auto& worker : workers) worker.join();
    EXPECT(sum == 4 * 200 * 20);
    const std::lock_guard<std::mutex> hold(resource.mutex());
    EXPECT(!heap.check() && live_blocks(heap) == 0);
}

int main() {
    forbidden upstream;
    std::pmr::set_default_resource(&upstream);
    containers<rtalloc::tlsf>();
    containers<rtalloc::half_fit>();
    containers<rtalloc::best_fit>();
    containers<rtalloc::binary_buddy>();
    resources_on_resources();
    refusals();
    threads();
    std::puts("pmr: as it should be");
}

#endif
