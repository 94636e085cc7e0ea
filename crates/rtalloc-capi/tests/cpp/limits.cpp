// Regions for limits: constants, at least as large as those of the library, and little larger.

#include "expect.hpp"

#include <initializer_list>
#include <limits>

constexpr rt_limit TELEMETRY[] = {rtalloc::up_to(64, 200), rtalloc::up_to(8, 1500), rtalloc::up_to(1, 4096)};
constexpr std::size_t BYTES = rtalloc::region_bytes_for<rtalloc::binary_buddy>(TELEMETRY);
static_assert(BYTES <= 72 << 10, "the heap does not fit");
static rtalloc::static_heap<rtalloc::binary_buddy, BYTES> heap;
constexpr rt_pools_config POOLS{{200, 1500, 4096}};
static rtalloc::static_heap<rtalloc::pools, rtalloc::region_bytes_for(POOLS, TELEMETRY)> heap_of_pools(POOLS);

constexpr std::size_t NONE = std::numeric_limits<std::size_t>::max();

template <class Allocator, std::size_t N>
void agree(const rt_limit (&limits)[N], std::size_t (*of_library)(const rt_limit*, std::size_t), std::size_t factor) {
    const std::size_t exact = of_library(limits, N), constant = rtalloc::region_bytes_for<Allocator>(limits);
    EXPECT((exact == NONE) == (constant == NONE));
    EXPECT(constant >= exact);
    EXPECT(exact == NONE || constant <= factor * exact + 700);
}

template <std::size_t N> void pools_agree(const rt_pools_config& pools, const rt_limit (&limits)[N]) {
    const std::size_t exact = rt_pools_region_bytes_for(&pools, limits, N), constant = rtalloc::region_bytes_for(pools, limits);
    EXPECT((exact == NONE) == (constant == NONE));
    EXPECT(constant >= exact);
    EXPECT(exact == NONE || constant <= exact + 700);
}

template <std::size_t N> void all_agree(const rt_limit (&limits)[N], std::size_t factor) {
    for (const rt_pools_config& pools : {rt_pools_config{{}}, POOLS, rt_pools_config{{1, 17, 100, 70000}}, rt_pools_config{{200, 100}}, rt_pools_config{{0, 200}},
                                         rt_pools_config{{100, 0, 200}}, rt_pools_config{{NONE / 2}}}) {
        pools_agree(pools, limits);
    }
    agree<rtalloc::binary_buddy>(limits, rt_binary_buddy_region_bytes_for, factor);
    agree<rtalloc::kingsley>(limits, rt_kingsley_region_bytes_for, 1);
    agree<rtalloc::simple_segregated>(limits, rt_simple_segregated_region_bytes_for, 1);
}

void constants_are_those_of_the_library() {
    for (const std::size_t objects : {1, 2, 3, 17, 500, 70000}) {
        for (const std::size_t bytes : {1, 12, 13, 16, 17, 28, 100, 1000, 1020, 1021, 4092, 4096, 70000}) {
            all_agree({rtalloc::up_to(objects, bytes)}, 1);
            all_agree({rtalloc::between(objects, bytes, bytes), rtalloc::up_to(3, 200)}, 1);
            all_agree({rtalloc::between(objects, bytes, bytes), rtalloc::between(7, 40, 900), rtalloc::up_to(1, 5000)}, 1);
            all_agree({rtalloc::live(objects * bytes, 1, bytes)}, 2);
            all_agree({rtalloc::live(bytes, 1, objects * bytes)}, 2);
            all_agree({rtalloc::live(objects * bytes, bytes, bytes), rtalloc::up_to(2, 50)}, 1);
        }
    }
    all_agree(TELEMETRY, 1);
    all_agree({rtalloc::up_to(1, std::numeric_limits<std::size_t>::max())}, 1);
    all_agree({rtalloc::up_to(100000, 1 << 20)}, 1);
    all_agree({rtalloc::up_to(0, 100)}, 1);
    all_agree({rtalloc::up_to(1, 0)}, 1);
    all_agree({rtalloc::between(1, 2, 1)}, 1);
    all_agree({rt_limit{1, 1, 1, 1}}, 1);
}

template <class Heap> void within_the_limits_nothing_is_refused(Heap& tested) {
    void* live[73] = {};
    std::uint32_t random = 1;
    auto next = [&random](std::size_t below) {
        random = random * 1664525u + 1013904223u;
        return (random >> 8) % below;
    };
    for (int round = 0; round < 50000; ++round) {
        const std::size_t index = next(73), largest = index < 64 ? 200 : index < 72 ? 1500 : 4096;
        tested.deallocate(live[index]);
        live[index] = tested.try_allocate(1 + next(largest)).value();
        EXPECT(live[index] != nullptr);
    }
    for (void* block : live) tested.deallocate(block);
}

int main() {
    constants_are_those_of_the_library();
    within_the_limits_nothing_is_refused(heap);
    within_the_limits_nothing_is_refused(heap_of_pools);
    std::puts("limits: as they should be");
}
