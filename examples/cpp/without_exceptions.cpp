// Without exceptions and run-time type information: errors are values.
//
//     c++ -std=c++17 -fno-exceptions -fno-rtti without_exceptions.cpp -lrtalloc

#include <rtalloc.hpp>

#include <cstdio>

alignas(std::max_align_t) static std::byte memory[16 << 10];

int main() {
    using heap_type = rtalloc::heap<rtalloc::half_fit>;
    const auto small = heap_type::try_make(memory, 16);
    std::printf("16 bytes: %s\n", rt_strerror(small.error()));

    auto made = heap_type::try_make(memory, sizeof memory);
    if (!made) return 1;
    heap_type& heap = *made;
    const auto block = heap.try_allocate(100);
    std::printf("100 bytes: %s\n", block ? "granted" : rt_strerror(block.error()));
    std::printf("20 KiB: %s\n", rt_strerror(heap.try_allocate(20 << 10).error()));

    auto point = heap.try_make_unique<std::array<double, 3>>();
    if (point) (*point)[0] = 1;
    std::printf("a point: %s\n", point ? "made" : "refused");
}
