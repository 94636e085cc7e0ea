// Arenas: an audio thread allocates and frees without a lock, and without waiting for the thread that feeds it.
//
//     c++ -std=c++17 threads_with_deadlines.cpp -lrtalloc -pthread

#include <rtalloc.hpp>

#include <atomic>
#include <cstdio>
#include <thread>

using arenas = rtalloc::arenas;

struct phrase {
    int notes[16];
};

alignas(std::max_align_t) static std::byte memory[64 << 10];

int main() {
    rtalloc::shared_heap<arenas> heap(memory, 2);
    const auto free = heap.max_steps(RT_OPERATION_FREE, sizeof(phrase), alignof(phrase));
    std::printf("a free takes at most %zu atomic changes, whatever the other thread does\n", free->read_modify_writes);

    std::atomic<phrase*> mailbox{nullptr};
    long played = 0;
    constexpr int phrases = 5000;

    std::thread control([&] {
        auto slot = heap.claim();
        for (int number = 0; number < phrases;) {
            // This thread may wait: its next allocation takes back what the audio thread frees.
            auto made = slot.try_make_unique<phrase>();
            if (!made) continue;
            for (int& note : made->notes) note = number;
            phrase* sent = made.release();
            phrase* empty = nullptr;
            while (!mailbox.compare_exchange_weak(empty, sent)) empty = nullptr;
            ++number;
        }
    });
    std::thread audio([&] {
        auto slot = heap.claim();
        for (int number = 0; number < phrases;) {
            phrase* received = mailbox.exchange(nullptr);
            if (received == nullptr) continue;
            for (const int note : received->notes) played += note;
            slot.deallocate(received);
            ++number;
        }
    });
    control.join();
    audio.join();
    std::printf("played: %ld\n", played);
    std::printf("broken: %s\n", heap.check() ? "yes" : "no");
}
