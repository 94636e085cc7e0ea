// Objects that move: ownership by handles, reads and writes, resizing, stale handles; and objects shared by several
// threads.

#include "expect.hpp"

#include <cstring>
#include <string>
#include <thread>
#include <vector>

alignas(64) static std::byte memory[1 << 20];

template <class A> std::size_t alive(const rtalloc::objects<A>& heap) {
    std::size_t count = 0;
    heap.walk([&](const rt_object& object) { count += object.handle != 0 ? 1 : 0; });
    return count;
}

/// Every object keeps its bytes wherever it moves; freed memory serves every other size.
template <class A> void objects_keep_their_bytes() {
    static_assert(!std::is_copy_constructible_v<rtalloc::object<A>>);
    rtalloc::objects<A> heap(memory);
    {
        std::vector<rtalloc::object<A>> kept;
        for (int round = 0; round < 40; ++round) {
            for (int index = 0; index < 50; ++index) {
                const std::size_t bytes = 16 + static_cast<std::size_t>((round * 31 + index * 7) % 900);
                auto made = heap.allocate(bytes);
                const std::string filling(bytes, static_cast<char>('a' + kept.size() % 26));
                EXPECT(made.write(0, filling.data(), bytes) == RT_OK && made.size() == bytes);
                kept.push_back(std::move(made));
            }
            for (std::size_t index = kept.size(); index-- > 0;) {
                if ((index + static_cast<std::size_t>(round)) % 3 != 0) kept[index].reset();
            }
            std::vector<rtalloc::object<A>> rest;
            for (auto& object : kept) {
                if (object) rest.push_back(std::move(object));
            }
            kept = std::move(rest);
            EXPECT(alive(heap) == kept.size());
        }
        for (const auto& object : kept) {
            std::string bytes(object.size(), '\0');
            EXPECT(object.read(0, bytes.data(), bytes.size()) == RT_OK);
            EXPECT(bytes.find_first_not_of(bytes[0]) == std::string::npos);
            EXPECT(object.read(1, bytes.data(), bytes.size()) == RT_ERROR_OUT_OF_RANGE);
        }
        heap.step(1 << 20);
        EXPECT(heap.pending_bytes() == 0 && !heap.check());
        auto& first = kept[0];
        char byte = 0;
        EXPECT(first.resize(2000) == RT_OK && first.size() == 2000 && first.read(0, &byte, 1) == RT_OK && byte != 0);
        EXPECT(first.resize(1 << 20) == RT_ERROR_TOO_LARGE && first.size() == 2000);
        const auto piece = first.locate(100);
        EXPECT(piece && piece->first != nullptr && piece->second >= 1);
        EXPECT(first.locate(5000).error() == RT_ERROR_OUT_OF_RANGE);
    }
    EXPECT(alive(heap) == 0 && heap.stats().live_blocks == 0);
    EXPECT(heap.try_allocate(0).error() == RT_ERROR_ZERO_SIZE);
    EXPECT_THROW(heap.allocate(1 << 20), rtalloc::bad_alloc);
    EXPECT((rtalloc::objects<A>::try_make(memory, 10).error()) == RT_ERROR_REGION_TOO_SMALL);
    EXPECT(heap.fragmentation().size_external_bytes == 0);
}

void handles() {
    rtalloc::objects<> heap(memory);
    struct point {
        double x, y;
    };
    auto made = heap.allocate(sizeof(point));
    *made.as<point>() = {1, 2};
    EXPECT(made.as<point>()->y == 2);
    struct large {
        char bytes[1000];
    };
    EXPECT(made.as<large>() == nullptr);
    // A handle that outlives its object is stale.
    const rt_handle handle = made.release();
    EXPECT(!made && made.get() == nullptr && made.size() == 0);
    auto again = heap.adopt(handle);
    EXPECT(again.as<point>()->x == 1 && again.reset() == RT_OK);
    auto stale = heap.adopt(handle);
    EXPECT(stale.get() == nullptr && stale.resize(10) == RT_ERROR_STALE_HANDLE && stale.reset() == RT_ERROR_STALE_HANDLE);
    rtalloc::object<rtalloc::compact_fit> none;
    EXPECT(!none && none.reset() == RT_OK);
    none = heap.allocate(100);
    rtalloc::object<rtalloc::compact_fit> taken(std::move(none));
    EXPECT(taken.size() == 100 && none.size() == 0 && alive(heap) == 1);
}

/// Threads allocate, and pin and free each other's objects.
void threads() {
    rtalloc::shared_objects heap(memory, 4);
    EXPECT(heap.slots() == 4 && heap.largest_request() >= 1024);
    std::vector<rt_handle> made(3 * 200);
    std::vector<std::thread> workers;
    for (std::size_t worker = 0; worker < 3; ++worker) {
        workers.emplace_back([&, worker] {
            auto slot = heap.claim();
            for (std::size_t index = 0; index < 200; ++index) {
                auto handle = slot.try_allocate(64);
                EXPECT(handle.has_value());
                const std::string bytes(64, static_cast<char>('a' + worker));
                EXPECT(heap.try_pin(*handle)->write(0, bytes.data(), 64) == RT_OK);
                made[worker * 200 + index] = *handle;
            }
        });
    }
    for (auto& worker : workers) worker.join();
    auto slot = heap.claim();
    for (std::size_t index = 0; index < made.size(); ++index) {
        auto held = heap.try_pin(made[index]);
        EXPECT(held.has_value() && held->size() == 64 && held->address() != nullptr);
        EXPECT(slot.free(made[index]) == RT_OK && slot.free(made[index]) == RT_ERROR_STALE_HANDLE);
        // A pinned object stays in place, freed or not.
        char bytes[64];
        EXPECT(held->read(0, bytes, 64) == RT_OK && bytes[63] == static_cast<char>('a' + index / 200));
        rtalloc::pin moved = std::move(*held);
        moved.reset();
        EXPECT(moved.address() == nullptr && heap.try_pin(made[index]).error() == RT_ERROR_STALE_HANDLE);
    }
    EXPECT(heap.refusals().exhausted == 0 && !heap.check());
    {
        std::vector<rtalloc::shared_objects::slot> all;
        for (int more = 0; more < 3; ++more) all.push_back(heap.claim());
        EXPECT(heap.try_claim().error() == RT_ERROR_SLOT);
        for (auto& one : all) {
            one.reclaim(1000);
            while (one.has_pending_compaction() && one.step(1 << 20) != 0) {
            }
        }
    }
    EXPECT(heap.try_claim().has_value());
    EXPECT_THROW((rtalloc::shared_objects(memory, 10, 4)), std::system_error);
}

int main() {
#define KEEP(X) objects_keep_their_bytes<rtalloc::X>();
    RTALLOC_OBJECT_ALLOCATORS(KEEP, KEEP)
    handles();
    threads();
    std::puts("objects: as they should be");
}
