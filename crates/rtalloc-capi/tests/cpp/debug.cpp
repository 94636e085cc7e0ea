// Heaps for debugging: guards, injected failures, quotas, a flight recorder, and all of them together.

#include "expect.hpp"

#include <cstring>
#include <map>
#include <string>
#include <vector>

alignas(64) static std::byte memory[256 << 10];
static std::vector<rt_misuse_kind> seen;

template <class T, class A> using vector_in = std::vector<T, rtalloc::allocator<T, A>>;

/// Containers work in a heap for debugging as in any other.
template <class A> void containers() {
    rtalloc::heap<A> heap(memory);
    {
        vector_in<vector_in<int, A>, A> rows(heap);
        for (int row = 0; row < 20; ++row) rows.emplace_back(50, row, heap);
        std::map<int, int, std::less<int>, rtalloc::allocator<std::pair<const int, int>, A>> map(heap);
        for (int key = 0; key < 100; ++key) map[key] = key * key;
        EXPECT(rows[19][49] == 19 && map.at(9) == 81 && !heap.check());
        EXPECT(heap.try_allocate(1 << 20).error() == RT_ERROR_TOO_LARGE);
    }
    EXPECT(seen.empty());
    EXPECT(heap.stats().live_blocks == 0 && !heap.check());
}

template <class A> void guards() {
    rtalloc::heap<A> heap(memory);
    const auto reports = [&](auto fault) {
        seen.clear();
        fault();
        return seen.size() == 1 ? static_cast<int>(seen[0]) : -1;
    };
    auto* over = static_cast<char*>(heap.allocate(101));
    EXPECT(reports([&] {
               over[101] = 7;
               heap.deallocate(over);
           }) == RT_MISUSE_OVERRUN);
    auto* twice = static_cast<char*>(heap.allocate(100));
    heap.deallocate(twice);
    EXPECT(reports([&] { heap.deallocate(twice); }) == RT_MISUSE_DOUBLE_FREE);
    seen.clear();
}

void failures() {
    rtalloc::heap<rtalloc::failing_tlsf> heap(memory);
    // Every request of a program fails once, and the program continues.
    for (std::size_t number = 1; number <= 30; ++number) {
        const rt_failures plan{RT_FAILURES_NTH, number, 0, 0};
        EXPECT(rt_failing_tlsf_arm(heap.get(), &plan) == RT_OK);
        bool thrown = false;
        try {
            vector_in<vector_in<int, rtalloc::failing_tlsf>, rtalloc::failing_tlsf> rows(heap);
            for (int row = 0; row < 10; ++row) rows.emplace_back(10, row, heap);
        } catch (const rtalloc::bad_alloc& refused) {
            thrown = refused.why() == RT_ERROR_INJECTED;
        }
        EXPECT(thrown == (number <= 15) && heap.stats().live_blocks == 0);
    }
}

void quotas() {
    const rt_quota_limits limits[2] = {{SIZE_MAX, SIZE_MAX, SIZE_MAX}, {1000, SIZE_MAX, SIZE_MAX}};
    rtalloc::heap<rtalloc::quota_tlsf> heap(memory, sizeof memory, rt_quota_tlsf_config{limits, 2, 0});
    {
        const rtalloc::component<rtalloc::quota_tlsf> audio(heap, 1);
        EXPECT(heap.try_allocate(600).has_value() && heap.try_allocate(600).error() == RT_ERROR_QUOTA);
        EXPECT(rt_quota_tlsf_component(heap.get()) == 1);
    }
    EXPECT(rt_quota_tlsf_component(heap.get()) == 0 && heap.try_allocate(600).has_value());
}

void recorder() {
    rtalloc::heap<rtalloc::traced_tlsf> heap(memory);
    heap.deallocate(heap.allocate(100));
    EXPECT(rt_traced_tlsf_recorded(heap.get()) == 2);
    EXPECT(rt_traced_tlsf_mark(heap.get(), 7) == RT_OK && rt_traced_tlsf_recorded(heap.get()) == 3);
}

int main() {
    rt_set_misuse_hook([](const rt_misuse* misuse) { seen.push_back(misuse->kind); });
#define CONTAINERS(X) containers<rtalloc::X>();
    RTALLOC_DEBUG_ALLOCATORS(CONTAINERS, CONTAINERS)
    guards<rtalloc::guarded_tlsf>();
    guards<rtalloc::debug_tlsf>();
    failures();
    quotas();
    recorder();
    std::puts("debug: as it should be");
}
