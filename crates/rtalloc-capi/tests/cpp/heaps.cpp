// The operations of a heap: creation, moves, requests, further regions, refusals and checks.

#include "expect.hpp"

#include <cstring>
#include <string>
#include <vector>

alignas(64) static std::byte memory[64 << 10];

static std::string reported;

void made_and_moved() {
    static_assert(!std::is_copy_constructible_v<rtalloc::heap<rtalloc::tlsf>>);
    static_assert(std::is_nothrow_move_constructible_v<rtalloc::heap<rtalloc::tlsf>>);
    static_assert(sizeof(rtalloc::heap<rtalloc::tlsf>) == sizeof(void*));
    static_assert(!std::is_move_constructible_v<rtalloc::static_heap<rtalloc::tlsf, 4096>>);

    EXPECT_THROW((rtalloc::heap<rtalloc::tlsf>(memory, 10)), std::system_error);
    try {
        rtalloc::heap<rtalloc::tlsf> none(nullptr, 4096);
        EXPECT(!"a heap of no memory");
    } catch (const std::system_error& error) {
        EXPECT(error.code() == RT_ERROR_NULL && error.code() == std::errc::invalid_argument);
        EXPECT(error.code().category() == rtalloc::category());
    }
    auto small = rtalloc::heap<rtalloc::half_fit>::try_make(memory, 10);
    EXPECT(!small && small.error() == RT_ERROR_REGION_TOO_SMALL);
    EXPECT_THROW(small.value(), std::system_error);

    auto made = rtalloc::heap<rtalloc::half_fit>::try_make(memory, sizeof memory);
    EXPECT(made && made.error() == RT_OK);
    rtalloc::heap<rtalloc::half_fit> heap = std::move(made).value();
    void* block = heap.allocate(100);
    rtalloc::heap<rtalloc::half_fit> moved(std::move(heap));
    EXPECT(heap.get() == nullptr && heap.try_allocate(100).error() == RT_ERROR_NULL);
    EXPECT(moved.usable_size(block) >= 100);
    moved.deallocate(block);
    heap = std::move(moved);
    EXPECT(live_blocks(heap) == 0 && heap.largest() > (31 << 10));

    std::array<std::byte, 8192> array;
    rtalloc::heap<rtalloc::tlsf> in_array(array);
    EXPECT(in_array.allocate(1000) != nullptr);
    unsigned char bytes[8192];
    rtalloc::heap<rtalloc::tlsf> in_bytes(bytes);
    EXPECT(in_bytes.allocate(1000) != nullptr);
#if defined(__cpp_lib_span)
    rtalloc::heap<rtalloc::tlsf> in_span(std::span<std::byte>(memory, 8192));
    EXPECT(in_span.allocate(1000) != nullptr);
#endif
    static rtalloc::static_heap<rtalloc::tlsf, 8192> inside;
    void* own = inside.allocate(1000);
    EXPECT(own >= static_cast<void*>(&inside) && own < static_cast<void*>(&inside + 1));
    auto adopted = rtalloc::heap<rtalloc::tlsf>::adopt(inside.get());
    adopted.deallocate(own);
    EXPECT(live_blocks(inside) == 0);
}

void errors_are_values() {
    rtalloc::heap<rtalloc::tlsf> heap(memory);
    EXPECT(heap.try_allocate(0).error() == RT_ERROR_ZERO_SIZE);
    EXPECT(heap.try_allocate(10, 3).error() == RT_ERROR_ALIGNMENT);
    EXPECT(heap.try_allocate(1 << 20).error() == RT_ERROR_TOO_LARGE);
    EXPECT(heap.try_allocate(100).has_value());
    const std::error_code why = RT_ERROR_EXHAUSTED;
    EXPECT(why == std::errc::not_enough_memory && why.message() == rt_strerror(RT_ERROR_EXHAUSTED));
    EXPECT(std::string(why.category().name()) == "rtalloc");
    EXPECT(!std::error_code(RT_OK) && std::error_code(RT_ERROR_CONTENDED) == std::errc::resource_unavailable_try_again);
    for (int error = RT_OK; error <= RT_ERROR_NO_STATS; ++error) {
        const std::error_code code = static_cast<rt_error>(error);
        EXPECT(code.value() == error && !code.message().empty() && code.message().find("not an error") == std::string::npos);
    }
    EXPECT(heap.try_allocate(0).value_or(memory) == memory);

    auto block = heap.try_allocate(100);
    std::memset(*block, 7, 100);
    auto grown = heap.try_reallocate(*block, 5000, 64);
    EXPECT(grown && reinterpret_cast<std::uintptr_t>(*grown) % 64 == 0);
    EXPECT(static_cast<unsigned char*>(*grown)[99] == 7);
    EXPECT(heap.try_reallocate(*grown, 1 << 20).error() == RT_ERROR_TOO_LARGE);
    EXPECT(static_cast<unsigned char*>(*grown)[0] == 7);
    EXPECT(heap.try_reallocate(nullptr, 10).has_value());
    try {
        static_cast<void>(heap.allocate(1 << 20, 8));
        EXPECT(!"more than there is");
    } catch (const rtalloc::bad_alloc& refused) {
        EXPECT(refused.why() == RT_ERROR_TOO_LARGE && std::string(refused.what()) == rt_strerror(RT_ERROR_TOO_LARGE));
    }
}

void questions() {
    rtalloc::heap<rtalloc::tlsf> heap(memory);
    EXPECT(std::string(heap.contract().name) == "tlsf" && heap.contract().allocate == RT_COST_CONSTANT);
    void* blocks[10];
    for (void*& block : blocks) block = heap.allocate(100);
    for (int index = 0; index < 10; index += 2) heap.deallocate(blocks[index]);
    const rt_stats stats = heap.stats();
    EXPECT(stats.live_blocks == 5 && stats.peak_live_bytes >= 1000 && stats.live_bytes >= 500);
    EXPECT(stats.largest_free_bytes == heap.largest());
    std::size_t seen = 0, bytes = 0;
    heap.walk([&](const rt_block& block) {
        ++seen;
        bytes += block.size_bytes;
    });
    EXPECT(seen >= 10 && bytes > (60 << 10) && bytes <= sizeof memory);
    // A visitor that throws ends the walk, and the exception propagates.
    std::size_t shown = 0;
    EXPECT_THROW(heap.walk([&](const rt_block&) {
        if (++shown == 3) throw 7;
    }),
                 int);
    EXPECT(shown == 3);
    EXPECT(heap.allocate(heap.largest(), 1) != nullptr);
    // A bound is proved only for some processors and compilers.
    EXPECT(heap.bound(RT_OPERATION_MALLOC) < 1000);
}

void regions() {
    alignas(64) static std::byte more[16 << 10];
    std::byte* first = +memory < +more ? memory : more;
    std::byte* second = +memory < +more ? more : memory;
    // The control structure is sized for the largest region to be added.
    rtalloc::heap<rtalloc::tlsf> heap(first, 16 << 10, rt_heap_config{16 << 10});
    EXPECT(!heap.try_allocate(12 << 10).error());
    EXPECT(heap.try_allocate(12 << 10).error() == RT_ERROR_EXHAUSTED);
    auto added = heap.try_add_region(second, 16 << 10);
    EXPECT(added.has_value());
    auto block = heap.try_allocate(12 << 10);
    EXPECT(block.has_value() && *block >= static_cast<void*>(second));
    EXPECT(heap.try_remove_region(*added) == RT_ERROR_IN_USE);
    heap.deallocate(*block);
    EXPECT(heap.try_remove_region(*added) == RT_OK && heap.try_remove_region(*added) == RT_ERROR_NOT_REMOVABLE);
    EXPECT(heap.try_add_region(second, 1).error() == RT_ERROR_REGION_TOO_SMALL);
    rtalloc::heap<rtalloc::tlsf> unplanned(first, 8 << 10);
    EXPECT(unplanned.try_add_region(second, 16 << 10).error() == RT_ERROR_LARGER_THAN_PLANNED);
}

void faults() {
    rt_set_misuse_hook([](const rt_misuse* misuse) { reported = misuse->allocator; });
    rtalloc::heap<rtalloc::tlsf> heap(memory);
    void* block = heap.allocate(100);
    void* next = heap.allocate(100);
    heap.deallocate(block);
    heap.deallocate(block);
    EXPECT(reported == "tlsf" && !heap.check());
    std::memset(next, 0xFF, 200);
    const auto broken = heap.check();
    EXPECT(broken && broken->invariant[0] != '\0');
    rt_set_misuse_hook(nullptr);
}

int main() {
    made_and_moved();
    errors_are_values();
    questions();
    regions();
    faults();
    EXPECT(rt_version() == RT_VERSION_MAJOR * 10000 + RT_VERSION_MINOR * 100 + RT_VERSION_PATCH);
    std::puts("heaps: as they should be");
}
