// Shared heaps: slots with destructors, containers of a slot, transfer between threads, memory resources.

#include "expect.hpp"

#include <atomic>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

alignas(64) static std::byte memory[1 << 20];

template <class T, class A> using vector_in = std::vector<T, rtalloc::allocator<T, rtalloc::in_slot<A>>>;

template <class A> void slots() {
    static_assert(!std::is_copy_constructible_v<rtalloc::slot<A>> && std::is_nothrow_move_assignable_v<rtalloc::slot<A>>);
    rtalloc::shared_heap<A> heap(memory, 3);
    // Without exclusive slots, any slot number is valid.
    const bool exclusive = heap.contract().slots_are_exclusive;
    EXPECT(heap.slots() >= 3);
    {
        rtalloc::slot<A> one = heap.claim();
        auto other = heap.try_claim(1);
        EXPECT(other.has_value() && other->number() == 1);
        EXPECT(!exclusive || heap.try_claim(0).error() == RT_ERROR_SLOT);
        rtalloc::slot<A> moved = std::move(one);
        EXPECT(one.try_allocate(100).error() == RT_ERROR_NULL);
        void* block = moved.allocate(100);
        EXPECT(moved.usable_size(block) >= 100);
        // Freed by another slot, and reclaimed.
        other->deallocate(block);
        moved.reclaim(10);
        EXPECT(moved.try_allocate(0).error() == RT_ERROR_ZERO_SIZE && moved.try_allocate(2 << 20).error() == RT_ERROR_TOO_LARGE);
        EXPECT(heap.refusals().request == 2);
        auto grown = moved.try_reallocate(moved.allocate(10), 1000);
        EXPECT(grown.has_value());
        moved.deallocate(*grown);
        auto unique = moved.template make_unique<std::string>("in a slot");
        EXPECT(*unique == "in a slot");
        unique.reset();
        other = RT_ERROR_SLOT;
        EXPECT(heap.try_claim(1).has_value());
    }
    EXPECT(heap.try_claim(0).has_value());
    EXPECT(!heap.check() && live_blocks(heap) == 0);
    if (exclusive) {
        auto a = heap.claim(), b = heap.claim(), c = heap.claim();
        EXPECT_THROW(heap.claim(), std::system_error);
        EXPECT(a.number() + b.number() + c.number() == 3);
    }
    EXPECT((rtalloc::shared_heap<A>::try_make(memory, 10, rt_shared_config{2, 0, 0}).error()) != RT_OK);
}

/// Threads create containers, pass them on, and free each other's memory.
template <class A> void containers() {
    rtalloc::shared_heap<A> heap(memory, 5);
    {
        rtalloc::slot<A> mine = heap.claim();
        std::vector<vector_in<int, A>> rows;
        for (int worker = 0; worker < 4; ++worker) rows.emplace_back(mine);
        std::vector<std::thread> workers;
        for (int worker = 0; worker < 4; ++worker) {
            workers.emplace_back([&, worker] {
                rtalloc::slot<A> own = heap.claim();
                for (int round = 0; round < 50; ++round) {
                    vector_in<int, A> numbers(own);
                    for (int number = 0; number < 200; ++number) numbers.push_back(number * worker);
                    numbers.shrink_to_fit();
                    // The memory moves along, but each container keeps its slot: this thread owns both for now.
                    if (round == 49) rows[static_cast<std::size_t>(worker)].swap(numbers);
                }
            });
            // Sequentially: only one thread at a time uses a container.
            workers.back().join();
        }
        for (int worker = 0; worker < 4; ++worker) {
            const auto& row = rows[static_cast<std::size_t>(worker)];
            EXPECT(std::accumulate(row.begin(), row.end(), 0) == 19900 * worker);
            EXPECT(row.get_allocator().refer().slot == mine.number());
        }
        const int* place = rows[1].data();
        vector_in<int, A> moved(mine);
        moved = std::move(rows[1]);
        EXPECT(moved.data() == place);
    }
    auto all = heap.claim();
    while (all.reclaim(1000) != 0) {
    }
    EXPECT(!heap.check());
}

/// `std::shared_ptr`s whose last owner is another thread.
void pointers() {
    rtalloc::shared_heap<rtalloc::arenas> heap(memory, 2);
    auto mine = heap.claim();
    auto shared = std::allocate_shared<int>(rtalloc::allocator<int, rtalloc::in_slot<rtalloc::arenas>>(mine), 7);
    EXPECT(*shared == 7);
    shared.reset();
    EXPECT(live_blocks(heap) == 0);
}

#if defined(__cpp_lib_memory_resource)
/// The slot of each thread.
static thread_local std::size_t own_number = 0;
struct current {
    std::size_t operator()() const noexcept { return own_number; }
};

void resources() {
    rtalloc::shared_heap<rtalloc::arenas> heap(memory, 4);
    rtalloc::shared_resource<rtalloc::arenas, current> resource(heap);
    std::vector<rtalloc::slot<rtalloc::arenas>> taken;
    for (int slot = 0; slot < 4; ++slot) taken.push_back(heap.claim());
    std::pmr::vector<std::pmr::string> words[3] = {
        std::pmr::vector<std::pmr::string>(&resource), std::pmr::vector<std::pmr::string>(&resource),
        std::pmr::vector<std::pmr::string>(&resource)};
    std::vector<std::thread> workers;
    for (std::size_t worker = 0; worker < 3; ++worker) {
        workers.emplace_back([&, worker] {
            own_number = worker + 1;
            for (int round = 0; round < 500; ++round) {
                words[worker].emplace_back(50, static_cast<char>('a' + worker));
                if (words[worker].size() > 20) words[worker].erase(words[worker].begin());
            }
        });
    }
    for (auto& worker : workers) worker.join();
    // The main thread, in its own slot, frees what the others allocated.
    for (auto& list : words) {
        EXPECT(list.size() == 20 && list[0].size() == 50);
        list.clear();
        list.shrink_to_fit();
    }
    own_number = 4;
    EXPECT_THROW(static_cast<void>(resource.allocate(10)), rtalloc::bad_alloc);
    own_number = 0;
    for (auto& slot : taken) slot.reclaim(10000);
    EXPECT(!heap.check() && live_blocks(heap) == 0);

    rtalloc::memory_resource<rtalloc::in_slot<rtalloc::arenas>> own(taken[0]);
    std::pmr::vector<int> numbers(100, 7, &own);
    EXPECT(numbers[99] == 7 && live_blocks(heap) == 1);
}
#endif

int main() {
#define SLOTS(X) slots<rtalloc::X>();
    RTALLOC_SHARED_ALLOCATORS(SLOTS)
    containers<rtalloc::arenas>();
    containers<rtalloc::bitmap_buddy>();
    pointers();
#if defined(__cpp_lib_memory_resource)
    resources();
#endif
    rtalloc::shared_heap<rtalloc::arenas> heap(memory, 2);
    const auto steps = heap.max_steps(RT_OPERATION_FREE, 100, 8);
    EXPECT(steps && steps->read_modify_writes <= 3);
    EXPECT(heap.contract().allocate == RT_PROGRESS_WAIT_FREE);
    // A bound is proved only for some processors and compilers.
    EXPECT(heap.bound(RT_OPERATION_FREE) < 10000);
    std::puts("shared: as it should be");
}
