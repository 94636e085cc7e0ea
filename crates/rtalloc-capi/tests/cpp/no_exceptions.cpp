// Without exceptions and run-time type information: errors are values, and a function of the program replaces throws.

#include <cstdio>
#include <cstdlib>

static int expected = -1;

/// Ends the program, successfully if this call was expected.
[[noreturn]] static void refused(int error) {
    if (error == expected) std::puts("no_exceptions: as it should be");
    std::exit(error == expected ? 0 : 1);
}
#define RTALLOC_REFUSED(error) refused(error)

#include "expect.hpp"

#include <vector>

#if defined(__cpp_exceptions) || defined(__cpp_rtti)
#error "this is compiled without both"
#endif

alignas(64) static std::byte memory[64 << 10];

int main() {
    EXPECT(rtalloc::heap<rtalloc::tlsf>::try_make(memory, 10).error() == RT_ERROR_REGION_TOO_SMALL);
    rtalloc::heap<rtalloc::tlsf> heap(memory);
    {
        std::vector<int, rtalloc::allocator<int, rtalloc::tlsf>> numbers(100, 7, heap);
        EXPECT(numbers[99] == 7 && live_blocks(heap) == 1);
        EXPECT(heap.try_allocate(1 << 20).error() == RT_ERROR_TOO_LARGE);
        EXPECT(heap.make_unique<int>(7) != nullptr);
    }
#if defined(__cpp_lib_memory_resource)
    rtalloc::memory_resource<rtalloc::tlsf> resource(heap);
    resource.deallocate(resource.allocate(100), 100);
#endif
    EXPECT(live_blocks(heap) == 0 && !heap.check());
    expected = RT_ERROR_TOO_LARGE;
    static_cast<void>(heap.allocate(1 << 20));
    return 1;
}
