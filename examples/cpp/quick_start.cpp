// Containers of the standard library in an array.
//
//     c++ -std=c++17 quick_start.cpp -lrtalloc

#include <rtalloc.hpp>

#include <cstdio>
#include <map>
#include <vector>

template <class T> using in_heap = rtalloc::allocator<T, rtalloc::tlsf>;

alignas(std::max_align_t) static std::byte memory[64 << 10];

int main() {
    rtalloc::heap<rtalloc::tlsf> heap(memory);
    std::printf("%s: header of %zu bytes\n", heap.contract().name, heap.contract().header_bytes);

    std::vector<int, in_heap<int>> numbers(heap);
    std::map<int, double, std::less<int>, in_heap<std::pair<const int, double>>> roots(heap);
    for (int number = 1; number <= 100; ++number) {
        numbers.push_back(number);
        roots[number * number] = number;
    }
    std::printf("%zu numbers, the root of 4900 is %g\n", numbers.size(), roots.at(4900));

    // An object in the heap, freed at the end of its scope.
    {
        auto sample = heap.make_unique<std::array<float, 64>>();
        sample->fill(0.5F);
        std::printf("live blocks with it: %zu\n", heap.stats().live_blocks);
    }
    std::printf("live blocks without: %zu\n", heap.stats().live_blocks);

    // A full heap throws; its contents do not change.
    try {
        numbers.resize(100'000);
    } catch (const rtalloc::bad_alloc& refused) {
        std::printf("%s; still %zu numbers\n", refused.what(), numbers.size());
    }
    std::size_t free = 0;
    heap.walk([&](const rt_block& block) { free += block.is_free ? 1 : 0; });
    std::printf("free blocks: %s, broken: %s\n", free > 0 ? "some" : "none", heap.check() ? "yes" : "no");
}
