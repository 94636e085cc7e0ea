/// @file
/// rtalloc for C++17: heaps over memory that the program gives, as allocators of its containers.
///
///     #include <rtalloc.hpp>
///
///     alignas(std::max_align_t) static std::byte memory[65536];
///
///     rtalloc::heap<rtalloc::tlsf> heap(memory);
///     std::vector<int, rtalloc::allocator<int, rtalloc::tlsf>> numbers(heap);
///
///     rtalloc::memory_resource<rtalloc::tlsf> resource(heap);
///     std::pmr::string text("in the same heap", &resource);
///
/// Header only, over rtalloc.h and librtalloc. Every allocator X of rtalloc.h is a type here, `rtalloc::X`, which is the argument of
/// the templates: nothing is chosen at run time, and no call is virtual but those of `std::pmr`.
///
/// | take | for |
/// |---|---|
/// | `heap<A>` | a heap over memory of the program: the operations, with errors as exceptions or as values |
/// | `static_heap<A, Bytes>` | the same with the memory inside |
/// | `allocator<T, A>` | `std::vector<T, allocator<T, A>>` and every other container |
/// | `memory_resource<A>` | `std::pmr` |
/// | `synchronized_resource<A, Mutex>` | `std::pmr`, for several threads, under a lock |
/// | `shared_heap<A>`, `slot<A>` | a heap for several threads that wait for nobody: each claims a slot of it |
/// | `allocator<T, in_slot<A>>`, `memory_resource<in_slot<A>>` | containers of a slot's thread |
/// | `shared_resource<A, Current>` | `std::pmr`, for several threads, by the slot of whoever calls |
/// | `guarded_tlsf`, `failing_tlsf`, `quota_tlsf`, `traced_tlsf`, `debug_tlsf` as `A` | heaps that find faults, make them, share out, or record; what else they have is in rtalloc.h (`rt_traced_tlsf_mark(heap.get(), 7)`) |
/// | `objects<A>`, `object<A>` | objects that move, so that memory depends on live objects alone |
/// | `shared_objects`, `pin` | the same for several threads |
///
/// # Threads
///
/// A heap is used by one thread at a time, through whatever refers to it; so is a slot of a shared heap. An interrupt or signal handler counts
/// as a thread: it may come in the midst of an operation.
///
/// # Versions
///
/// Of rtalloc.h, whose RT_VERSION_MAJOR and RT_VERSION_MINOR say when programs must be compiled anew.
///
/// # Errors
///
/// What is refused has changed nothing. Functions whose names begin with `try_` throw nothing of their own: they answer a null pointer, or a
/// `result`, which is a value or an `rt_error`. (What a constructor of the program's throws passes through `try_make_unique`.) The others throw `rtalloc::bad_alloc` (a `std::bad_alloc` that knows why), or
/// `std::system_error` where a heap cannot be made. Without exceptions (-fno-exceptions) they call `RTALLOC_REFUSED(error)` in place of
/// throwing, which is `std::abort()` unless the program defines it before it includes this; it must not return. Nothing here
/// needs run-time type information (-fno-rtti).
///
/// An `rt_error` is a `std::error_code` by itself: `std::error_code why = RT_ERROR_EXHAUSTED;`
///
/// # Time
///
/// That of the function of rtalloc.h, and a few instructions. No function here loops.
#ifndef RTALLOC_HPP
#define RTALLOC_HPP

#include <rtalloc.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

#if defined(__has_include)
#if __has_include(<version>)
#include <version>
#endif
#if __has_include(<memory_resource>)
#include <memory_resource>
#endif
#endif
#if defined(__cpp_lib_span)
#include <span>
#endif

#if defined(__cpp_exceptions)
#include <exception>
#elif !defined(RTALLOC_REFUSED)
/// What is done where an exception would be thrown; it must not return.
#define RTALLOC_REFUSED(error) std::abort()
#endif

#if defined(__GNUC__)
// Whatever names the program has: parameters here may have them too.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

/// The allocators of one hand, a line for each. `MORE` takes further regions, `ONE` has the region it was made in.
#define RTALLOC_ALLOCATORS(MORE, ONE)                                                                                  \
    MORE(tlsf)                                                                                                         \
    MORE(lean_tlsf)                                                                                                    \
    MORE(tlsf_exact)                                                                                                   \
    MORE(tlsf_thorough)                                                                                                \
    MORE(half_fit)                                                                                                     \
    ONE(quick_fit)                                                                                                     \
    ONE(simple_segregated)                                                                                             \
    ONE(simple_segregated_8)                                                                                           \
    ONE(kingsley)                                                                                                      \
    MORE(first_fit)                                                                                                    \
    MORE(first_fit_address)                                                                                            \
    MORE(next_fit)                                                                                                     \
    MORE(next_fit_lifo)                                                                                                \
    MORE(best_fit)                                                                                                     \
    MORE(tree_best_fit)                                                                                                \
    ONE(fast_fit)                                                                                                      \
    ONE(fast_fit_leftmost)                                                                                             \
    ONE(binary_buddy)                                                                                                  \
    ONE(bbuddy)                                                                                                        \
    ONE(fibonacci_buddy)                                                                                               \
    ONE(weighted_buddy)                                                                                                \
    ONE(double_buddy)                                                                                                  \
    ONE(bitframe)                                                                                                      \
    ONE(bitframe_8)                                                                                                    \
    ONE(bitframe_eager)                                                                                                \
    ONE(bitframe_16)                                                                                                   \
    ONE(bitframe_4)                                                                                                    \
    ONE(bitframe_crossing)                                                                                             \
    ONE(regis1)                                                                                                        \
    ONE(regis1_8)                                                                                                      \
    ONE(regis2)                                                                                                        \
    ONE(regis2_8)                                                                                                      \
    ONE(reaps)                                                                                                         \
    ONE(reaps_8)

/// The allocators for debugging, each with a configuration of its own, `rt_X_config`. `MORE` and `ONE` as above.
#define RTALLOC_DEBUG_ALLOCATORS(MORE, ONE)                                                                            \
    ONE(guarded_tlsf)                                                                                                  \
    MORE(failing_tlsf)                                                                                                 \
    ONE(quota_tlsf)                                                                                                    \
    MORE(traced_tlsf)                                                                                                  \
    ONE(debug_tlsf)

/// The allocators that several threads share.
#define RTALLOC_SHARED_ALLOCATORS(SHARED)                                                                              \
    SHARED(arenas)                                                                                                     \
    SHARED(bitmap_buddy)                                                                                               \
    SHARED(tree_buddy)                                                                                                 \
    SHARED(tree_buddy_in_band)

/// The allocators of objects that move, but the one that threads share, `shared_compact_fit`. `WHOLE` has objects in one piece each.
#define RTALLOC_OBJECT_ALLOCATORS(WHOLE, PIECES)                                                                       \
    WHOLE(compact_fit)                                                                                                 \
    WHOLE(compact_fit_iota)                                                                                            \
    PIECES(compact_fit_non_moving)

namespace rtalloc {

/// The category of `rt_error` as `std::error_code`.
inline const std::error_category& category() noexcept {
    class rtalloc_category final : public std::error_category {
      public:
        const char* name() const noexcept override { return "rtalloc"; }
        std::string message(int error) const override { return rt_strerror(static_cast<rt_error>(error)); }
        std::error_condition default_error_condition(int error) const noexcept override {
            switch (error) {
            case RT_ERROR_TOO_LARGE:
            case RT_ERROR_EXHAUSTED:
            case RT_ERROR_QUOTA:
            case RT_ERROR_INJECTED:
            case RT_ERROR_REGION_TOO_SMALL: return std::errc::not_enough_memory;
            case RT_ERROR_PENDING:
            case RT_ERROR_CONTENDED: return std::errc::resource_unavailable_try_again;
            case RT_ERROR_ZERO_SIZE:
            case RT_ERROR_ALIGNMENT:
            case RT_ERROR_NULL:
            case RT_ERROR_CONFIGURATION: return std::errc::invalid_argument;
            case RT_ERROR_OVERFLOW: return std::errc::value_too_large;
            case RT_ERROR_IN_USE: return std::errc::device_or_resource_busy;
            default: return std::error_condition(error, *this);
            }
        }
    };
    static const rtalloc_category only;
    return only;
}

/// A request that was refused, and why.
class bad_alloc : public std::bad_alloc {
  public:
    explicit bad_alloc(rt_error why) noexcept : why_(why) {}
    /// Why.
    rt_error why() const noexcept { return why_; }
    /// The reason in words.
    const char* what() const noexcept override { return rt_strerror(why_); }

  private:
    rt_error why_;
};

/// What is behind the names that users need.
namespace detail {

/// Ends a request that was refused.
[[noreturn]] inline void refuse(rt_error why) {
#if defined(__cpp_exceptions)
    throw bad_alloc(why);
#else
    static_cast<void>(why);
    RTALLOC_REFUSED(why);
#endif
}

/// Ends what is no request for memory.
[[noreturn]] inline void fail(rt_error why) {
#if defined(__cpp_exceptions)
    throw std::system_error(static_cast<int>(why), category());
#else
    static_cast<void>(why);
    RTALLOC_REFUSED(why);
#endif
}

/// A request for nothing is served as one for a byte: C++ wants an address, which nobody else has.
constexpr std::size_t at_least_one(std::size_t bytes) noexcept { return bytes == 0 ? 1 : bytes; }

/// Bytes of so many objects, or more than any heap has.
template <class T> constexpr std::size_t bytes_of(std::size_t count) noexcept {
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
    return count > most / sizeof(T) ? most : count * sizeof(T);
}

} // namespace detail

/// A value, or why there is none.
template <class T> class [[nodiscard]] result {
  public:
    /// A value.
    result(T value) noexcept(std::is_nothrow_move_constructible_v<T>) : value_(std::move(value)) {}
    /// None: `why` is an error, not `RT_OK`.
    result(rt_error why) noexcept : why_(why) {}

    /// Whether there is a value.
    explicit operator bool() const noexcept { return value_.has_value(); }
    /// Whether there is a value.
    bool has_value() const noexcept { return value_.has_value(); }
    /// Why there is none; `RT_OK` if there is one.
    rt_error error() const noexcept { return why_; }

    /// The value, which is there.
    T& operator*() & noexcept { return *value_; }
    /// The value, which is there.
    const T& operator*() const& noexcept { return *value_; }
    /// The value, which is there.
    T&& operator*() && noexcept { return std::move(*value_); }
    /// Of the value, which is there.
    T* operator->() noexcept { return &*value_; }
    /// Of the value, which is there.
    const T* operator->() const noexcept { return &*value_; }

    /// The value; throws `std::system_error` if there is none.
    T& value() & {
        require();
        return *value_;
    }
    /// The value; throws `std::system_error` if there is none.
    T&& value() && {
        require();
        return std::move(*value_);
    }
    /// The value, or another.
    template <class U> T value_or(U&& other) && {
        return value_ ? std::move(*value_) : static_cast<T>(std::forward<U>(other));
    }

  private:
    void require() const {
        if (!value_) detail::fail(why_);
    }

    std::optional<T> value_;
    rt_error why_ = RT_OK;
};

/// A region that was added to a heap.
struct region_id {
    rt_region value; ///< As rtalloc.h knows it.
};

// Each allocator's functions under one set of names. All take a reference to a heap: a pointer, and for shared ones a slot besides.
#define RTALLOC_QUESTIONS(X)                                                                                           \
    using heap_type = ::rt_##X;                                                                                        \
    static constexpr const char* name = #X;                                                                            \
    static rt_error check(const heap_type* heap, rt_corruption* where) noexcept {                                      \
        return ::rt_##X##_check(heap, where);                                                                          \
    }                                                                                                                  \
    static std::uint64_t bound(rt_operation operation) noexcept { return ::rt_##X##_bound(operation); }

#define RTALLOC_VERBS(X, CONFIG)                                                                                       \
    RTALLOC_QUESTIONS(X)                                                                                               \
    using reference = heap_type*;                                                                                      \
    using config_type = CONFIG;                                                                                        \
    static constexpr bool goes_along = true;                                                                           \
    static rt_error init(void* region, std::size_t bytes, const CONFIG* config, heap_type** heap) noexcept {           \
        return ::rt_##X##_init_with(region, bytes, config, heap);                                                      \
    }                                                                                                                  \
    static rt_error allocate(reference heap, std::size_t align, std::size_t bytes, void** block) noexcept {            \
        return ::rt_##X##_allocate(heap, align, bytes, block);                                                         \
    }                                                                                                                  \
    static void* aligned_alloc(reference heap, std::size_t align, std::size_t bytes) noexcept {                        \
        return ::rt_##X##_aligned_alloc(heap, align, bytes);                                                           \
    }                                                                                                                  \
    static rt_error reallocate(reference heap, void** block, std::size_t align, std::size_t bytes) noexcept {          \
        return ::rt_##X##_reallocate(heap, block, align, bytes);                                                       \
    }                                                                                                                  \
    static void free(reference heap, void* block) noexcept { ::rt_##X##_free(heap, block); }                           \
    static std::size_t usable_size(reference heap, const void* block) noexcept {                                       \
        return ::rt_##X##_usable_size(heap, block);                                                                    \
    }                                                                                                                  \
    static std::size_t largest(reference heap) noexcept { return ::rt_##X##_largest(heap); }                           \
    static bool same_heap(reference one, reference other) noexcept { return one == other; }                            \
    static rt_error stats(const heap_type* heap, rt_stats* stats) noexcept { return ::rt_##X##_stats(heap, stats); }   \
    static rt_error walk(const heap_type* heap, rt_visitor visitor, void* context) noexcept {                          \
        return ::rt_##X##_walk(heap, visitor, context);                                                                \
    }                                                                                                                  \
    static const rt_contract& contract() noexcept { return *::rt_##X##_contract(); }

#define RTALLOC_ONE_BY(X, CONFIG)                                                                                      \
    struct X {                                                                                                         \
        static constexpr bool takes_regions = false;                                                                   \
        RTALLOC_VERBS(X, CONFIG)                                                                                       \
    };
#define RTALLOC_MORE_BY(X, CONFIG)                                                                                     \
    struct X {                                                                                                         \
        static constexpr bool takes_regions = true;                                                                    \
        RTALLOC_VERBS(X, CONFIG)                                                                                       \
        static rt_error add_region(heap_type* heap, void* region, std::size_t bytes, rt_region* added) noexcept {      \
            return ::rt_##X##_add_region(heap, region, bytes, added);                                                  \
        }                                                                                                              \
        static rt_error remove_region(heap_type* heap, rt_region region) noexcept {                                    \
            return ::rt_##X##_remove_region(heap, region);                                                             \
        }                                                                                                              \
    };
#define RTALLOC_ONE(X) RTALLOC_ONE_BY(X, rt_heap_config)
#define RTALLOC_MORE(X) RTALLOC_MORE_BY(X, rt_heap_config)
#define RTALLOC_ONE_DEBUG(X) RTALLOC_ONE_BY(X, rt_##X##_config)
#define RTALLOC_MORE_DEBUG(X) RTALLOC_MORE_BY(X, rt_##X##_config)
#define RTALLOC_SHARED(X)                                                                                              \
    struct X {                                                                                                         \
        RTALLOC_QUESTIONS(X)                                                                                           \
        static rt_error init(void* region, std::size_t bytes, const rt_shared_config* config,                          \
                             heap_type** heap) noexcept {                                                              \
            return ::rt_##X##_init_with(region, bytes, config, heap);                                                  \
        }                                                                                                              \
        static std::size_t slots(const heap_type* heap) noexcept { return ::rt_##X##_slots(heap); }                    \
        static rt_error claim(heap_type* heap, std::size_t* slot) noexcept { return ::rt_##X##_claim(heap, slot); }    \
        static rt_error take(heap_type* heap, std::size_t slot) noexcept { return ::rt_##X##_take(heap, slot); }       \
        static rt_error release(heap_type* heap, std::size_t slot) noexcept { return ::rt_##X##_release(heap, slot); } \
        static rt_error allocate(heap_type* heap, std::size_t slot, std::size_t align, std::size_t bytes,              \
                                 void** block) noexcept {                                                              \
            return ::rt_##X##_allocate(heap, slot, align, bytes, block);                                               \
        }                                                                                                              \
        static void* aligned_alloc(heap_type* heap, std::size_t slot, std::size_t align, std::size_t bytes) noexcept { \
            return ::rt_##X##_aligned_alloc(heap, slot, align, bytes);                                                 \
        }                                                                                                              \
        static rt_error reallocate(heap_type* heap, std::size_t slot, void** block, std::size_t align,                 \
                                   std::size_t bytes) noexcept {                                                       \
            return ::rt_##X##_reallocate(heap, slot, block, align, bytes);                                             \
        }                                                                                                              \
        static void free(heap_type* heap, std::size_t slot, void* block) noexcept {                                    \
            ::rt_##X##_free(heap, slot, block);                                                                        \
        }                                                                                                              \
        static std::size_t usable_size(heap_type* heap, std::size_t slot, const void* block) noexcept {                \
            return ::rt_##X##_usable_size(heap, slot, block);                                                          \
        }                                                                                                              \
        static std::size_t reclaim(heap_type* heap, std::size_t slot, std::size_t budget) noexcept {                   \
            return ::rt_##X##_reclaim(heap, slot, budget);                                                             \
        }                                                                                                              \
        static std::size_t largest(heap_type* heap, std::size_t slot) noexcept {                                       \
            return ::rt_##X##_largest(heap, slot);                                                                     \
        }                                                                                                              \
        static rt_error refusals(const heap_type* heap, rt_refusals* refusals) noexcept {                              \
            return ::rt_##X##_refusals(heap, refusals);                                                                \
        }                                                                                                              \
        static rt_error walk(const heap_type* heap, rt_visitor visitor, void* context) noexcept {                      \
            return ::rt_##X##_walk(heap, visitor, context);                                                            \
        }                                                                                                              \
        static rt_error most_steps(const heap_type* heap, rt_operation operation, std::size_t align, std::size_t bytes,\
                                   rt_steps* steps) noexcept {                                                         \
            return ::rt_##X##_most_steps(heap, operation, align, bytes, steps);                                        \
        }                                                                                                              \
        static const rt_shared_contract& contract() noexcept { return *::rt_##X##_contract(); }                        \
    };
#define RTALLOC_OBJECTS(X)                                                                                             \
    RTALLOC_QUESTIONS(X)                                                                                               \
    static rt_error init(void* region, std::size_t bytes, const rt_compact_fit_config* config,                         \
                         heap_type** heap) noexcept {                                                                  \
        return ::rt_##X##_init_with(region, bytes, config, heap);                                                      \
    }                                                                                                                  \
    static rt_error allocate(heap_type* heap, std::size_t bytes, rt_handle* handle) noexcept {                         \
        return ::rt_##X##_allocate(heap, bytes, handle);                                                               \
    }                                                                                                                  \
    static rt_error free(heap_type* heap, rt_handle handle) noexcept { return ::rt_##X##_free(heap, handle); }         \
    static rt_error resize(heap_type* heap, rt_handle handle, std::size_t bytes) noexcept {                            \
        return ::rt_##X##_resize(heap, handle, bytes);                                                                 \
    }                                                                                                                  \
    static rt_error size(const heap_type* heap, rt_handle handle, std::size_t* bytes) noexcept {                       \
        return ::rt_##X##_size(heap, handle, bytes);                                                                   \
    }                                                                                                                  \
    static rt_error locate(heap_type* heap, rt_handle handle, std::size_t offset, void** place,                        \
                           std::size_t* piece) noexcept {                                                              \
        return ::rt_##X##_locate(heap, handle, offset, place, piece);                                                  \
    }                                                                                                                  \
    static rt_error read(const heap_type* heap, rt_handle handle, std::size_t offset, void* buffer,                    \
                         std::size_t bytes) noexcept {                                                                 \
        return ::rt_##X##_read(heap, handle, offset, buffer, bytes);                                                   \
    }                                                                                                                  \
    static rt_error write(heap_type* heap, rt_handle handle, std::size_t offset, const void* buffer,                   \
                          std::size_t bytes) noexcept {                                                                \
        return ::rt_##X##_write(heap, handle, offset, buffer, bytes);                                                  \
    }                                                                                                                  \
    static std::size_t owed(const heap_type* heap) noexcept { return ::rt_##X##_owed(heap); }                          \
    static std::size_t step(heap_type* heap, std::size_t budget) noexcept { return ::rt_##X##_step(heap, budget); }    \
    static std::size_t largest(const heap_type* heap) noexcept { return ::rt_##X##_largest(heap); }                    \
    static rt_error stats(const heap_type* heap, rt_stats* stats) noexcept { return ::rt_##X##_stats(heap, stats); }   \
    static rt_error fragmentation(const heap_type* heap, rt_fragmentation* fragmentation) noexcept {                   \
        return ::rt_##X##_fragmentation(heap, fragmentation);                                                          \
    }                                                                                                                  \
    static rt_error walk(const heap_type* heap, rt_object_visitor visitor, void* context) noexcept {                   \
        return ::rt_##X##_walk(heap, visitor, context);                                                                \
    }                                                                                                                  \
    static const rt_contract& contract() noexcept { return *::rt_##X##_contract(); }
#define RTALLOC_WHOLE(X)                                                                                               \
    struct X {                                                                                                         \
        static constexpr bool is_whole = true;                                                                         \
        RTALLOC_OBJECTS(X)                                                                                             \
        static rt_error get(heap_type* heap, rt_handle handle, void** place) noexcept {                                \
            return ::rt_##X##_get(heap, handle, place);                                                                \
        }                                                                                                              \
    };
#define RTALLOC_PIECES(X)                                                                                              \
    struct X {                                                                                                         \
        static constexpr bool is_whole = false;                                                                        \
        RTALLOC_OBJECTS(X)                                                                                             \
    };

RTALLOC_ALLOCATORS(RTALLOC_MORE, RTALLOC_ONE)
RTALLOC_DEBUG_ALLOCATORS(RTALLOC_MORE_DEBUG, RTALLOC_ONE_DEBUG)
RTALLOC_SHARED_ALLOCATORS(RTALLOC_SHARED)
RTALLOC_OBJECT_ALLOCATORS(RTALLOC_WHOLE, RTALLOC_PIECES)

#undef RTALLOC_MORE
#undef RTALLOC_MORE_BY
#undef RTALLOC_ONE
#undef RTALLOC_ONE_BY
#undef RTALLOC_ONE_DEBUG
#undef RTALLOC_MORE_DEBUG
#undef RTALLOC_SHARED
#undef RTALLOC_WHOLE
#undef RTALLOC_PIECES
#undef RTALLOC_OBJECTS
#undef RTALLOC_VERBS
#undef RTALLOC_QUESTIONS

/// A slot of a shared heap, as the argument of `allocator` and `memory_resource`: containers that one thread uses.
///
/// A container keeps its own slot, whatever is assigned to it, and takes over the memory of a container of another slot when that is
/// moved into it: so `mine = std::move(theirs)` hands a container over to this thread. (Constructing takes the slot of what is moved:
/// give the constructor an allocator of one's own, too.)
template <class Allocator> struct in_slot {
    /// The heap, and the number of the slot.
    struct reference {
        typename Allocator::heap_type* heap = nullptr; ///< The heap.
        std::size_t slot = 0;                          ///< The number.
    };
    static constexpr bool goes_along = false;
    static rt_error allocate(reference to, std::size_t align, std::size_t bytes, void** block) noexcept {
        return Allocator::allocate(to.heap, to.slot, align, bytes, block);
    }
    static void* aligned_alloc(reference to, std::size_t align, std::size_t bytes) noexcept {
        return Allocator::aligned_alloc(to.heap, to.slot, align, bytes);
    }
    static rt_error reallocate(reference to, void** block, std::size_t align, std::size_t bytes) noexcept {
        return Allocator::reallocate(to.heap, to.slot, block, align, bytes);
    }
    static void free(reference to, void* block) noexcept { Allocator::free(to.heap, to.slot, block); }
    static std::size_t usable_size(reference to, const void* block) noexcept {
        return Allocator::usable_size(to.heap, to.slot, block);
    }
    static std::size_t largest(reference to) noexcept { return Allocator::largest(to.heap, to.slot); }
    static bool same_heap(reference one, reference other) noexcept { return one.heap == other.heap; }
    static const rt_contract& contract() noexcept { return Allocator::contract().alone; }
};

/// Frees what `make_unique` made.
template <class T, class Allocator> class deleter {
  public:
    /// For objects of no heap yet.
    deleter() noexcept = default;
    /// For objects of a heap.
    explicit deleter(typename Allocator::reference to) noexcept : to_(to) {}

    /// Destroys the object, and frees it.
    void operator()(T* object) const noexcept {
        object->~T();
        Allocator::free(to_, const_cast<std::remove_cv_t<T>*>(object));
    }

  private:
    typename Allocator::reference to_{};
};

namespace detail {

/// Shows what is in a heap to a visitor. `begin` is a walk of C.
template <class Shown, class Visitor, class Begin> void tour(Visitor& visitor, Begin begin) {
#if defined(__cpp_exceptions)
    // No exception passes through functions of C.
    struct Tour {
        Visitor* visitor;
        std::exception_ptr thrown;
    } whole{std::addressof(visitor), nullptr};
    const auto show = [](const Shown* shown, void* context) noexcept {
        auto& rest = *static_cast<Tour*>(context);
        if (rest.thrown) return;
        try {
            (*rest.visitor)(*shown);
        } catch (...) {
            rest.thrown = std::current_exception();
        }
    };
    begin(static_cast<void (*)(const Shown*, void*)>(show), &whole);
    if (whole.thrown) std::rethrow_exception(whole.thrown);
#else
    const auto show = [](const Shown* shown, void* context) noexcept { (*static_cast<Visitor*>(context))(*shown); };
    begin(static_cast<void (*)(const Shown*, void*)>(show), std::addressof(visitor));
#endif
}

/// The operations of a heap, or of a slot of one.
template <class Allocator> class operations {
  public:
    using reference = typename Allocator::reference;                                 ///< What refers to the heap.
    template <class T> using unique_ptr = std::unique_ptr<T, deleter<T, Allocator>>; ///< Of what is in the heap.

    /// Alignment of what is allocated without one: that of every fundamental type, or of the allocator's blocks where that is less.
    static std::size_t natural_align() noexcept {
        const std::size_t blocks = Allocator::contract().alignment_bytes;
        return blocks < alignof(std::max_align_t) ? blocks : alignof(std::max_align_t);
    }

    /// Allocates `bytes` bytes. Throws `bad_alloc`.
    [[nodiscard]] void* allocate(std::size_t bytes) { return allocate(bytes, natural_align()); }
    /// Allocates `bytes` bytes at a multiple of `align`. Throws `bad_alloc`.
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t align) {
        void* block = nullptr;
        const rt_error why = Allocator::allocate(to_, align, at_least_one(bytes), &block);
        if (why != RT_OK) refuse(why);
        return block;
    }
    /// Allocates, or tells why not; a request for nothing is refused.
    result<void*> try_allocate(std::size_t bytes) noexcept { return try_allocate(bytes, natural_align()); }
    /// Allocates at a multiple of `align`, or tells why not; a request for nothing is refused.
    result<void*> try_allocate(std::size_t bytes, std::size_t align) noexcept {
        void* block = nullptr;
        const rt_error why = Allocator::allocate(to_, align, bytes, &block);
        return why == RT_OK ? result<void*>(block) : result<void*>(why);
    }
    /// Changes the size of a block, in place or by moving it, or tells why not: the block is then as it was.
    result<void*> try_reallocate(void* block, std::size_t bytes) noexcept {
        return try_reallocate(block, bytes, natural_align());
    }
    /// As above, at a multiple of `align`.
    result<void*> try_reallocate(void* block, std::size_t bytes, std::size_t align) noexcept {
        const rt_error why = Allocator::reallocate(to_, &block, align, bytes);
        return why == RT_OK ? result<void*>(block) : result<void*>(why);
    }
    /// Gives a block back; a null pointer is ignored.
    void deallocate(void* block) noexcept { Allocator::free(to_, block); }

    /// Makes an object. Throws `bad_alloc`, and what its constructor throws.
    template <class T, class... Arguments> unique_ptr<T> make_unique(Arguments&&... arguments) {
        return built<T>(allocate(sizeof(T), alignof(T)), std::forward<Arguments>(arguments)...);
    }
    /// Makes an object, or a null pointer if there is no memory. Throws what its constructor throws.
    template <class T, class... Arguments> unique_ptr<T> try_make_unique(Arguments&&... arguments) {
        void* place = Allocator::aligned_alloc(to_, alignof(T), sizeof(T));
        if (place == nullptr) return unique_ptr<T>(nullptr, deleter<T, Allocator>(to_));
        return built<T>(place, std::forward<Arguments>(arguments)...);
    }

    /// Bytes that may be used at a live block: at least what was requested.
    std::size_t usable_size(const void* block) const noexcept { return Allocator::usable_size(to_, block); }
    /// A promise: a request of this many bytes succeeds now. Of a slot, if nobody uses the heap meanwhile.
    std::size_t largest() const noexcept { return Allocator::largest(to_); }

    /// What refers to the heap.
    reference refer() const noexcept { return to_; }

  protected:
    operations() noexcept = default;
    explicit operations(reference to) noexcept : to_(to) {}
    ~operations() = default;

    reference to_{};

  private:
    template <class T, class... Arguments> unique_ptr<T> built(void* place, Arguments&&... arguments) {
        static_assert(!std::is_array_v<T>, "an array is a std::vector with an rtalloc::allocator");
        // What a constructor throws takes the memory back.
        struct Guard {
            reference to;
            void* place;
            ~Guard() {
                if (place != nullptr) Allocator::free(to, place);
            }
        } guard{to_, place};
        T* object = ::new (place) T(std::forward<Arguments>(arguments)...);
        guard.place = nullptr;
        return unique_ptr<T>(object, deleter<T, Allocator>(to_));
    }
};

/// Verifies a heap.
template <class Allocator> std::optional<rt_corruption> checked(const typename Allocator::heap_type* heap) noexcept {
    rt_corruption where{};
    const rt_error why = Allocator::check(heap, &where);
    return why == RT_ERROR_CORRUPTION ? std::optional<rt_corruption>(where) : std::nullopt;
}

} // namespace detail

/// A heap over memory of the program, which outlives it. Movable, not copyable: who has it may hand it on, and allocators and resources
/// that were made of it go on, because they refer to the memory.
///
/// It ends when nobody uses it any more, and needs nothing for that: its blocks are not freed one by one, nor are objects in
/// them destroyed.
template <class Allocator> class heap : public detail::operations<Allocator> {
  public:
    using allocator_type = Allocator;                ///< The allocator.
    using heap_type = typename Allocator::heap_type; ///< The heap's type in rtalloc.h.
    /// What the heap is made with: rtalloc.h tells. Without one, the default.
    using config_type = std::optional<typename Allocator::config_type>;

    /// Makes a heap in `bytes` bytes at `region`, which may have any alignment. Throws `std::system_error`.
    heap(void* region, std::size_t bytes, const config_type& config = {}) {
        const rt_error why = Allocator::init(region, bytes, config ? &*config : nullptr, &this->to_);
        if (why != RT_OK) detail::fail(why);
    }
    /// Makes a heap in an array.
    template <std::size_t Bytes>
    explicit heap(std::byte (&region)[Bytes], const config_type& config = {}) : heap(region, Bytes, config) {}
    /// Makes a heap in an array.
    template <std::size_t Bytes>
    explicit heap(unsigned char (&region)[Bytes], const config_type& config = {}) : heap(region, Bytes, config) {}
    /// Makes a heap in an array.
    template <std::size_t Bytes>
    explicit heap(std::array<std::byte, Bytes>& region, const config_type& config = {})
        : heap(region.data(), Bytes, config) {}
#if defined(__cpp_lib_span)
    /// Makes a heap in a span.
    explicit heap(std::span<std::byte> region, const config_type& config = {})
        : heap(region.data(), region.size(), config) {}
#endif

    /// Makes a heap, or tells why not.
    static result<heap> try_make(void* region, std::size_t bytes, const config_type& config = {}) noexcept {
        heap_type* made = nullptr;
        const rt_error why = Allocator::init(region, bytes, config ? &*config : nullptr, &made);
        return why == RT_OK ? result<heap>(heap(made)) : result<heap>(why);
    }
    /// The heap that `get` of another one told: of C, say, or of memory that is shared.
    static heap adopt(heap_type* made) noexcept { return heap(made); }

    heap(const heap&) = delete;
    heap& operator=(const heap&) = delete;
    /// Takes the other's heap; the other has none then, and refuses everything with `RT_ERROR_NULL`.
    heap(heap&& other) noexcept : heap(std::exchange(other.to_, nullptr)) {}
    /// As the constructor.
    heap& operator=(heap&& other) noexcept {
        this->to_ = std::exchange(other.to_, nullptr);
        return *this;
    }
    ~heap() = default;

    /// Tallies; of a heap that keeps none all are 0 but the largest request.
    rt_stats stats() const noexcept {
        rt_stats stats{};
        Allocator::stats(get(), &stats);
        return stats;
    }
    /// Shows every block, `const rt_block&`, in the order of addresses. The visitor may throw, which ends the showing; it may not change the
    /// heap.
    template <class Visitor> void walk(Visitor&& visitor) const {
        detail::tour<rt_block>(visitor, [this](rt_visitor show, void* tour) { Allocator::walk(get(), show, tour); });
    }
    /// Verifies every invariant: the first that is broken, or nothing.
    std::optional<rt_corruption> check() const noexcept { return detail::checked<Allocator>(get()); }

    /// Adds a region, which outlives the heap or is removed; or tells why not. For allocators that take further regions.
    result<region_id> try_add_region(void* region, std::size_t bytes) noexcept {
        static_assert(Allocator::takes_regions, "this allocator has the region it was made in, and no other");
        rt_region added{};
        const rt_error why = Allocator::add_region(get(), region, bytes, &added);
        return why == RT_OK ? result<region_id>(region_id{added}) : result<region_id>(why);
    }
    /// Takes an added region back, whose memory is the caller's again; or tells why not.
    [[nodiscard]] rt_error try_remove_region(region_id region) noexcept {
        static_assert(Allocator::takes_regions, "this allocator has the region it was made in, and no other");
        return Allocator::remove_region(get(), region.value);
    }

    /// What the allocator is and promises.
    static const rt_contract& contract() noexcept { return Allocator::contract(); }
    /// Most instructions of an operation, where that was proved; else 0.
    static std::uint64_t bound(rt_operation operation) noexcept { return Allocator::bound(operation); }

    /// The heap as rtalloc.h knows it; null if it was moved away.
    heap_type* get() const noexcept { return this->to_; }

  private:
    explicit heap(heap_type* made) noexcept : detail::operations<Allocator>(made) {}
};

namespace detail {

/// Memory inside an object.
template <std::size_t Bytes> struct storage {
    alignas(std::max_align_t) std::byte bytes[Bytes];
};

} // namespace detail

/// A heap with its memory inside: for a static, a member or the stack. It stays where it is, with all that is in it, so what refers to it
/// ends before it does: also a `heap` that it is moved into, which takes no memory along.
template <class Allocator, std::size_t Bytes> class static_heap : private detail::storage<Bytes>, public heap<Allocator> {
  public:
    /// Makes the heap. Throws `std::system_error` where the allocator needs more than `Bytes`.
    explicit static_heap(const typename heap<Allocator>::config_type& config = {}) : heap<Allocator>(this->bytes, Bytes, config) {}
    static_heap(static_heap&&) = delete;
    static_heap& operator=(static_heap&&) = delete;
};

namespace detail {

inline void enter(rt_quota_tlsf* heap, std::size_t component, std::size_t* before) noexcept {
    ::rt_quota_tlsf_enter(heap, component, before);
}
inline void enter(rt_debug_tlsf* heap, std::size_t component, std::size_t* before) noexcept {
    ::rt_debug_tlsf_enter(heap, component, before);
}

} // namespace detail

/// What a heap with quotas is asked until this ends is asked by this component; then by the one before.
template <class Allocator> class component {
  public:
    /// Enters the component of this number.
    component(heap<Allocator>& heap, std::size_t number) noexcept : heap_(heap.get()) {
        detail::enter(heap_, number, &before_);
    }
    component(const component&) = delete;
    component& operator=(const component&) = delete;
    ~component() { detail::enter(heap_, before_, nullptr); }

  private:
    typename Allocator::heap_type* heap_;
    std::size_t before_ = 0;
};

/// A heap as the allocator of a container, for one thread at a time. It refers to the heap, which outlives it; copies are equal, and so
/// are allocators of one heap. A container takes its allocator along when it is copied, moved or swapped (but see `in_slot`).
template <class T, class Allocator> class allocator {
    static_assert(!std::is_const_v<T> && !std::is_volatile_v<T> && !std::is_reference_v<T>, "containers hold objects");

  public:
    using reference_type = typename Allocator::reference;                                      ///< What refers to the heap.
    using value_type = T;                                                                      ///< What is allocated.
    using propagate_on_container_copy_assignment = std::bool_constant<Allocator::goes_along>;  ///< Taken along.
    using propagate_on_container_move_assignment = std::bool_constant<Allocator::goes_along>;  ///< Taken along.
    using propagate_on_container_swap = std::bool_constant<Allocator::goes_along>;             ///< Taken along.
    using is_always_equal = std::false_type;                                                   ///< Heaps differ.
    /// The allocator of other objects in the same heap.
    template <class U> struct rebind {
        using other = allocator<U, Allocator>; ///< It.
    };

    /// Of a heap, or a slot of one.
    allocator(detail::operations<Allocator>& heap) noexcept : to_(heap.refer()) {}
    /// Of a heap by what refers to it.
    explicit allocator(reference_type to) noexcept : to_(to) {}
    /// Of the same heap.
    template <class U> allocator(const allocator<U, Allocator>& other) noexcept : to_(other.refer()) {}

    /// Memory for `count` objects. Throws `bad_alloc`, and `std::bad_array_new_length` where no address space is that large.
    [[nodiscard]] T* allocate(std::size_t count) {
        const std::size_t bytes = detail::bytes_of<T>(count);
#if defined(__cpp_exceptions)
        if (bytes == std::numeric_limits<std::size_t>::max()) throw std::bad_array_new_length();
#endif
        void* block = nullptr;
        const rt_error why = Allocator::allocate(to_, alignof(T), detail::at_least_one(bytes), &block);
        if (why != RT_OK) detail::refuse(why);
        return static_cast<T*>(block);
    }
#if defined(__cpp_lib_allocate_at_least)
    /// Memory for `count` objects, and as many more as the block has room for.
    [[nodiscard]] std::allocation_result<T*> allocate_at_least(std::size_t count) {
        T* block = allocate(count);
        return {block, Allocator::usable_size(to_, block) / sizeof(T)};
    }
#endif
    /// Gives memory back.
    void deallocate(T* block, std::size_t) noexcept { Allocator::free(to_, block); }

    /// What refers to the heap.
    reference_type refer() const noexcept { return to_; }

  private:
    reference_type to_;
};

/// Whether both are of one heap.
template <class T, class U, class Allocator>
bool operator==(const allocator<T, Allocator>& one, const allocator<U, Allocator>& other) noexcept {
    return Allocator::same_heap(one.refer(), other.refer());
}
/// Whether they are of different heaps.
template <class T, class U, class Allocator>
bool operator!=(const allocator<T, Allocator>& one, const allocator<U, Allocator>& other) noexcept {
    return !(one == other);
}

/// A slot of a shared heap that is the caller's until this ends; blocks of it live on. Movable, not copyable.
template <class Allocator> class slot : public detail::operations<in_slot<Allocator>> {
    using base = detail::operations<in_slot<Allocator>>;

  public:
    using heap_type = typename Allocator::heap_type; ///< The heap's type in rtalloc.h.

    slot(const slot&) = delete;
    slot& operator=(const slot&) = delete;
    /// Takes the other's slot; the other has none then, and refuses everything.
    slot(slot&& other) noexcept : base(std::exchange(other.to_, {})) {}
    /// As the constructor; gives its own slot back.
    slot& operator=(slot&& other) noexcept {
        if (this != &other) {
            release();
            this->to_ = std::exchange(other.to_, {});
        }
        return *this;
    }
    ~slot() { release(); }

    /// Its number.
    std::size_t number() const noexcept { return this->to_.slot; }
    /// Takes back at most `budget` blocks of this slot that others freed, and says how many it took: for idle time.
    std::size_t reclaim(std::size_t budget) noexcept {
        return Allocator::reclaim(this->to_.heap, this->to_.slot, budget);
    }

  private:
    template <class> friend class shared_heap;
    slot(heap_type* heap, std::size_t number) noexcept : base(typename base::reference{heap, number}) {}

    void release() noexcept {
        if (this->to_.heap != nullptr) Allocator::release(this->to_.heap, this->to_.slot);
    }
};

/// A heap for several threads over memory of the program, which outlives it. Any thread may use it, and claim a slot.
template <class Allocator> class shared_heap {
  public:
    using allocator_type = Allocator;                ///< The allocator.
    using heap_type = typename Allocator::heap_type; ///< The heap's type in rtalloc.h.

    /// Makes a heap with so many slots. Throws `std::system_error`.
    shared_heap(void* region, std::size_t bytes, std::size_t slots)
        : shared_heap(region, bytes, rt_shared_config{slots, 0, 0}) {}
    /// Makes a heap. Throws `std::system_error`.
    shared_heap(void* region, std::size_t bytes, rt_shared_config config) {
        if (const rt_error why = Allocator::init(region, bytes, &config, &heap_); why != RT_OK) detail::fail(why);
    }
    /// Makes a heap in an array.
    template <std::size_t Bytes>
    shared_heap(std::byte (&region)[Bytes], std::size_t slots) : shared_heap(region, Bytes, slots) {}
#if defined(__cpp_lib_span)
    /// Makes a heap in a span.
    shared_heap(std::span<std::byte> region, std::size_t slots) : shared_heap(region.data(), region.size(), slots) {}
#endif
    /// Makes a heap, or tells why not.
    static result<shared_heap> try_make(void* region, std::size_t bytes, rt_shared_config config) noexcept {
        heap_type* made = nullptr;
        const rt_error why = Allocator::init(region, bytes, &config, &made);
        return why == RT_OK ? result<shared_heap>(shared_heap(made)) : result<shared_heap>(why);
    }
    /// The heap that `get` of another one told: of another process, say.
    static shared_heap adopt(heap_type* made) noexcept { return shared_heap(made); }

    shared_heap(const shared_heap&) = delete;
    shared_heap& operator=(const shared_heap&) = delete;
    /// Takes the other's heap; slots refer to the memory, and go on.
    shared_heap(shared_heap&& other) noexcept : heap_(std::exchange(other.heap_, nullptr)) {}
    /// As the constructor.
    shared_heap& operator=(shared_heap&& other) noexcept {
        heap_ = std::exchange(other.heap_, nullptr);
        return *this;
    }
    ~shared_heap() = default;

    /// How many slots it has.
    std::size_t slots() const noexcept { return Allocator::slots(heap_); }
    /// Claims a slot that nobody has. Throws `std::system_error` (`RT_ERROR_SLOT`) where all are taken.
    rtalloc::slot<Allocator> claim() { return try_claim().value(); }
    /// Claims a slot that nobody has, or tells why not.
    result<rtalloc::slot<Allocator>> try_claim() noexcept {
        std::size_t number = 0;
        const rt_error why = Allocator::claim(heap_, &number);
        return claimed(why, number);
    }
    /// Claims this slot, or tells why not.
    result<rtalloc::slot<Allocator>> try_claim(std::size_t number) noexcept {
        return claimed(Allocator::take(heap_, number), number);
    }

    /// Requests refused so far, by reason.
    rt_refusals refusals() const noexcept {
        rt_refusals refusals{};
        Allocator::refusals(heap_, &refusals);
        return refusals;
    }
    /// Most steps on words that others may access too, of an operation on `bytes` bytes at a multiple of `align`, whatever others do;
    /// nothing where it may have to wait.
    std::optional<rt_steps> most_steps(rt_operation operation, std::size_t bytes, std::size_t align) const noexcept {
        rt_steps steps{};
        const rt_error why = Allocator::most_steps(heap_, operation, align, bytes, &steps);
        return why == RT_OK ? std::optional<rt_steps>(steps) : std::nullopt;
    }
    /// Shows every block, `const rt_block&`. Nobody uses the heap meanwhile.
    template <class Visitor> void walk(Visitor&& visitor) const {
        detail::tour<rt_block>(visitor, [this](rt_visitor show, void* tour) { Allocator::walk(heap_, show, tour); });
    }
    /// Verifies every invariant: the first that is broken, or nothing. Nobody uses the heap meanwhile.
    std::optional<rt_corruption> check() const noexcept { return detail::checked<Allocator>(heap_); }

    /// What the allocator is and promises.
    static const rt_shared_contract& contract() noexcept { return Allocator::contract(); }
    /// Most instructions of an operation, where that was proved; else 0.
    static std::uint64_t bound(rt_operation operation) noexcept { return Allocator::bound(operation); }

    /// The heap as rtalloc.h knows it; null if it was moved away.
    heap_type* get() const noexcept { return heap_; }

  private:
    explicit shared_heap(heap_type* made) noexcept : heap_(made) {}

    result<rtalloc::slot<Allocator>> claimed(rt_error why, std::size_t number) noexcept {
        using claim = result<rtalloc::slot<Allocator>>;
        return why == RT_OK ? claim(rtalloc::slot<Allocator>(heap_, number)) : claim(why);
    }

    heap_type* heap_ = nullptr;
};

/// An object that may move, named by its handle, and freed when this ends. Movable, not copyable; the heap outlives it.
template <class Allocator> class object {
  public:
    using heap_type = typename Allocator::heap_type; ///< The heap's type in rtalloc.h.

    /// No object.
    object() noexcept = default;
    object(const object&) = delete;
    object& operator=(const object&) = delete;
    /// Takes the other's object; the other has none then.
    object(object&& other) noexcept
        : heap_(std::exchange(other.heap_, nullptr)), handle_(std::exchange(other.handle_, 0)) {}
    /// As the constructor; frees its own object.
    object& operator=(object&& other) noexcept {
        if (this != &other) {
            reset();
            heap_ = std::exchange(other.heap_, nullptr);
            handle_ = std::exchange(other.handle_, 0);
        }
        return *this;
    }
    ~object() { reset(); }

    /// Whether there is an object.
    explicit operator bool() const noexcept { return heap_ != nullptr; }
    /// Its handle: a number that stays good wherever the object moves, and is stale when it was freed. 0: no object.
    rt_handle handle() const noexcept { return handle_; }
    /// Bytes that were requested; 0 if there is no object.
    std::size_t size() const noexcept {
        std::size_t bytes = 0;
        Allocator::size(heap_, handle_, &bytes);
        return bytes;
    }

    /// Where the object is, until the next operation of the heap that may move objects: any but those that are `const`. Null if there is
    /// none. For allocators whose objects are in one piece.
    void* get() const noexcept {
        static_assert(Allocator::is_whole, "an object of this allocator is pieces: take read and write, or locate");
        void* place = nullptr;
        return Allocator::get(heap_, handle_, &place) == RT_OK ? place : nullptr;
    }
    /// The object as one that can be copied by its bytes, where it is large and aligned enough; else null. As long as `get`.
    template <class T> T* as() const noexcept {
        static_assert(std::is_trivially_copyable_v<T>, "objects move by their bytes");
        return size() >= sizeof(T) && Allocator::contract().alignment_bytes % alignof(T) == 0 ? static_cast<T*>(get())
                                                                                              : nullptr;
    }
    /// Where the byte at `offset` is, and how many bytes from there on are in one piece; or why that cannot be told.
    result<std::pair<void*, std::size_t>> locate(std::size_t offset) const noexcept {
        using where = std::pair<void*, std::size_t>;
        where found{};
        const rt_error why = Allocator::locate(heap_, handle_, offset, &found.first, &found.second);
        return why == RT_OK ? result<where>(found) : result<where>(why);
    }
    /// Copies bytes from `offset` on out of the object.
    [[nodiscard]] rt_error read(std::size_t offset, void* buffer, std::size_t bytes) const noexcept {
        return Allocator::read(heap_, handle_, offset, buffer, bytes);
    }
    /// Copies bytes into the object, from `offset` on.
    [[nodiscard]] rt_error write(std::size_t offset, const void* buffer, std::size_t bytes) noexcept {
        return Allocator::write(heap_, handle_, offset, buffer, bytes);
    }
    /// Changes the size; the handle stays good, and the content survives up to the smaller size. A refusal changes nothing.
    [[nodiscard]] rt_error resize(std::size_t bytes) noexcept { return Allocator::resize(heap_, handle_, bytes); }

    /// Frees the object, if there is one. `RT_ERROR_STALE_HANDLE`: somebody else freed it by its handle.
    rt_error reset() noexcept {
        const rt_error freed = heap_ == nullptr ? RT_OK : Allocator::free(heap_, handle_);
        heap_ = nullptr;
        handle_ = 0;
        return freed;
    }
    /// The handle of the object, which from now on is the caller's to free (`objects::adopt`).
    [[nodiscard]] rt_handle release() noexcept {
        heap_ = nullptr;
        return std::exchange(handle_, 0);
    }

  private:
    template <class> friend class objects;
    object(heap_type* heap, rt_handle handle) noexcept : heap_(heap), handle_(handle) {}

    heap_type* heap_ = nullptr;
    rt_handle handle_ = 0;
};

/// A heap of objects that move, over memory of the program, which outlives it: how much memory is used follows from the objects that live,
/// whatever came and went before.
template <class Allocator = compact_fit> class objects {
  public:
    using allocator_type = Allocator;                ///< The allocator.
    using heap_type = typename Allocator::heap_type; ///< The heap's type in rtalloc.h.
    using object_type = object<Allocator>;           ///< What is in it.
    /// What the heap is made with: rtalloc.h tells. Without one, the default.
    using config_type = std::optional<rt_compact_fit_config>;

    /// Makes a heap. Throws `std::system_error`.
    objects(void* region, std::size_t bytes, const config_type& config = {}) {
        if (const rt_error why = Allocator::init(region, bytes, config ? &*config : nullptr, &heap_); why != RT_OK) detail::fail(why);
    }
    /// Makes a heap in an array.
    template <std::size_t Bytes>
    explicit objects(std::byte (&region)[Bytes], const config_type& config = {}) : objects(region, Bytes, config) {}
#if defined(__cpp_lib_span)
    /// Makes a heap in a span.
    explicit objects(std::span<std::byte> region, const config_type& config = {})
        : objects(region.data(), region.size(), config) {}
#endif
    /// Makes a heap, or tells why not.
    static result<objects> try_make(void* region, std::size_t bytes, const config_type& config = {}) noexcept {
        heap_type* made = nullptr;
        const rt_error why = Allocator::init(region, bytes, config ? &*config : nullptr, &made);
        return why == RT_OK ? result<objects>(objects(made)) : result<objects>(why);
    }

    objects(const objects&) = delete;
    objects& operator=(const objects&) = delete;
    /// Takes the other's heap; objects refer to the memory, and go on.
    objects(objects&& other) noexcept : heap_(std::exchange(other.heap_, nullptr)) {}
    /// As the constructor.
    objects& operator=(objects&& other) noexcept {
        heap_ = std::exchange(other.heap_, nullptr);
        return *this;
    }
    ~objects() = default;

    /// Allocates an object, whose bytes are not initialised. Throws `bad_alloc`.
    object_type allocate(std::size_t bytes) {
        rt_handle handle = 0;
        if (const rt_error why = Allocator::allocate(heap_, bytes, &handle); why != RT_OK) detail::refuse(why);
        return object_type(heap_, handle);
    }
    /// Allocates an object, or tells why not.
    result<object_type> try_allocate(std::size_t bytes) noexcept {
        rt_handle handle = 0;
        const rt_error why = Allocator::allocate(heap_, bytes, &handle);
        return why == RT_OK ? result<object_type>(object_type(heap_, handle)) : result<object_type>(why);
    }
    /// The object of a handle that `object::release` gave, to be freed when it ends.
    object_type adopt(rt_handle handle) noexcept { return object_type(heap_, handle); }

    /// Bytes of objects that have still to be moved.
    std::size_t owed() const noexcept { return Allocator::owed(heap_); }
    /// Moves at most `budget` bytes of what is owed, and says how many: for idle time.
    std::size_t step(std::size_t budget) noexcept { return Allocator::step(heap_, budget); }
    /// A promise: a request of this many bytes succeeds now.
    std::size_t largest() const noexcept { return Allocator::largest(heap_); }
    /// Tallies.
    rt_stats stats() const noexcept {
        rt_stats stats{};
        Allocator::stats(heap_, &stats);
        return stats;
    }
    /// Bytes lost, by kind.
    rt_fragmentation fragmentation() const noexcept {
        rt_fragmentation fragmentation{};
        Allocator::fragmentation(heap_, &fragmentation);
        return fragmentation;
    }
    /// Shows every object, `const rt_object&`. The visitor may throw; it may not change the heap.
    template <class Visitor> void walk(Visitor&& visitor) const {
        detail::tour<rt_object>(visitor,
                                [this](rt_object_visitor show, void* tour) { Allocator::walk(heap_, show, tour); });
    }
    /// Verifies every invariant: the first that is broken, or nothing.
    std::optional<rt_corruption> check() const noexcept { return detail::checked<Allocator>(heap_); }

    /// What the allocator is and promises.
    static const rt_contract& contract() noexcept { return Allocator::contract(); }
    /// Most instructions of an operation, where that was proved; else 0.
    static std::uint64_t bound(rt_operation operation) noexcept { return Allocator::bound(operation); }
    /// The heap as rtalloc.h knows it; null if it was moved away.
    heap_type* get() const noexcept { return heap_; }

  private:
    explicit objects(heap_type* made) noexcept : heap_(made) {}

    heap_type* heap_ = nullptr;
};

/// An object of a shared heap that is kept where it is until this ends. Movable, not copyable. Any thread may pin; what several threads
/// access at a time is read and written by `read` and `write`.
class pin {
  public:
    pin(const pin&) = delete;
    pin& operator=(const pin&) = delete;
    /// Takes the other's pin; the other pins nothing then.
    pin(pin&& other) noexcept : pin_(std::exchange(other.pin_, rt_pin{})) {}
    /// As the constructor; ends its own pin.
    pin& operator=(pin&& other) noexcept {
        if (this != &other) {
            reset();
            pin_ = std::exchange(other.pin_, rt_pin{});
        }
        return *this;
    }
    ~pin() { reset(); }

    /// Where the object is.
    void* address() const noexcept { return pin_.address; }
    /// Bytes of the object.
    std::size_t size() const noexcept { return pin_.size_bytes; }
    /// Copies bytes from `offset` on out of the object, in words of four bytes that are read at once each.
    [[nodiscard]] rt_error read(std::size_t offset, void* buffer, std::size_t bytes) const noexcept {
        return rt_shared_compact_fit_read(&pin_, offset, buffer, bytes);
    }
    /// Copies bytes into the object from `offset` on, in words of four bytes that are written at once each.
    [[nodiscard]] rt_error write(std::size_t offset, const void* buffer, std::size_t bytes) noexcept {
        return rt_shared_compact_fit_write(&pin_, offset, buffer, bytes);
    }
    /// Ends the pin.
    void reset() noexcept {
        if (pin_.address != nullptr) rt_shared_compact_fit_unpin(&pin_);
        pin_ = rt_pin{};
    }

  private:
    friend class shared_objects;
    explicit pin(rt_pin pinned) noexcept : pin_(pinned) {}

    rt_pin pin_{};
};

/// Compact-fit for several threads, over memory of the program, which outlives it.
class shared_objects {
  public:
    /// A slot that is the caller's until this ends; objects of it live on. Movable, not copyable.
    class slot {
      public:
        slot(const slot&) = delete;
        slot& operator=(const slot&) = delete;
        /// Takes the other's slot; the other has none then.
        slot(slot&& other) noexcept
            : heap_(std::exchange(other.heap_, nullptr)), number_(std::exchange(other.number_, 0)) {}
        /// As the constructor; gives its own slot back.
        slot& operator=(slot&& other) noexcept {
            if (this != &other) {
                release();
                heap_ = std::exchange(other.heap_, nullptr);
                number_ = std::exchange(other.number_, 0);
            }
            return *this;
        }
        ~slot() { release(); }

        /// Its number.
        std::size_t number() const noexcept { return number_; }
        /// Allocates an object, or tells why not. `RT_ERROR_PENDING` and `RT_ERROR_CONTENDED` say that trying again may do.
        result<rt_handle> try_allocate(std::size_t bytes) noexcept {
            rt_handle handle = 0;
            const rt_error why = rt_shared_compact_fit_allocate(heap_, number_, bytes, &handle);
            return why == RT_OK ? result<rt_handle>(handle) : result<rt_handle>(why);
        }
        /// Frees an object, whoever allocated it. Of several who free one, one succeeds.
        rt_error free(rt_handle handle) noexcept { return rt_shared_compact_fit_free(heap_, number_, handle); }
        /// Takes back at most `budget` objects that others freed, and says how many: for idle time.
        std::size_t reclaim(std::size_t budget) noexcept {
            return rt_shared_compact_fit_reclaim(heap_, number_, budget);
        }
        /// Moves at most `budget` bytes of what is owed, and says how many: for idle time.
        std::size_t step(std::size_t budget) noexcept { return rt_shared_compact_fit_step(heap_, number_, budget); }
        /// Whether objects have still to be moved.
        bool owes() const noexcept { return rt_shared_compact_fit_owes(heap_, number_); }

      private:
        friend class shared_objects;
        slot(rt_shared_compact_fit* heap, std::size_t number) noexcept : heap_(heap), number_(number) {}
        void release() noexcept {
            if (heap_ != nullptr) rt_shared_compact_fit_release(heap_, number_);
        }

        rt_shared_compact_fit* heap_;
        std::size_t number_;
    };

    /// Makes a heap with so many slots. Throws `std::system_error`.
    shared_objects(void* region, std::size_t bytes, std::size_t slots)
        : shared_objects(region, bytes, rt_shared_objects_config{slots, 0, 0, 0, 0}) {}
    /// Makes a heap. Throws `std::system_error`.
    shared_objects(void* region, std::size_t bytes, rt_shared_objects_config config) {
        const rt_error why = rt_shared_compact_fit_init_with(region, bytes, &config, &heap_);
        if (why != RT_OK) detail::fail(why);
    }
    /// Makes a heap in an array.
    template <std::size_t Bytes>
    shared_objects(std::byte (&region)[Bytes], std::size_t slots) : shared_objects(region, Bytes, slots) {}

    shared_objects(const shared_objects&) = delete;
    shared_objects& operator=(const shared_objects&) = delete;
    ~shared_objects() = default;

    /// How many slots it has.
    std::size_t slots() const noexcept { return rt_shared_compact_fit_slots(heap_); }
    /// Claims a slot that nobody has. Throws `std::system_error` (`RT_ERROR_SLOT`) where all are taken.
    slot claim() { return try_claim().value(); }
    /// Claims a slot that nobody has, or tells why not.
    result<slot> try_claim() noexcept {
        std::size_t number = 0;
        const rt_error why = rt_shared_compact_fit_claim(heap_, &number);
        return why == RT_OK ? result<slot>(slot(heap_, number)) : result<slot>(why);
    }
    /// Keeps an object where it is, whoever allocated it, or tells why not. Needs no slot.
    result<pin> try_pin(rt_handle handle) const noexcept {
        rt_pin pinned{};
        const rt_error why = rt_shared_compact_fit_pin(heap_, handle, &pinned);
        return why == RT_OK ? result<pin>(pin(pinned)) : result<pin>(why);
    }
    /// Largest request that a heap may serve, in bytes.
    static std::size_t largest_request() noexcept { return rt_shared_compact_fit_largest_request(); }
    /// Requests refused so far, by reason.
    rt_refusals refusals() const noexcept {
        rt_refusals refusals{};
        rt_shared_compact_fit_refusals(heap_, &refusals);
        return refusals;
    }
    /// Verifies every invariant: the first that is broken, or nothing. Nobody uses the heap meanwhile.
    std::optional<rt_corruption> check() const noexcept {
        rt_corruption where{};
        const rt_error why = rt_shared_compact_fit_check(heap_, &where);
        return why == RT_ERROR_CORRUPTION ? std::optional<rt_corruption>(where) : std::nullopt;
    }
    /// The heap as rtalloc.h knows it.
    rt_shared_compact_fit* get() const noexcept { return heap_; }

  private:
    rt_shared_compact_fit* heap_ = nullptr;
};

#if defined(__cpp_lib_memory_resource)

/// A heap as a `std::pmr::memory_resource`, for one thread at a time. It throws `bad_alloc` where a request is refused, one for an alignment
/// that the heap has not got among them; it asks nobody else for memory.
///
/// It is equal to itself alone: what one resource allocated, another of the same heap may deallocate, but they do not know that of
/// each other without run-time type information.
template <class Allocator> class memory_resource : public std::pmr::memory_resource {
  public:
    /// Of a heap, or a slot of one, which outlives it.
    explicit memory_resource(detail::operations<Allocator>& heap) noexcept : to_(heap.refer()) {}
    /// Of a heap that is made in `bytes` bytes at `region`. Throws `std::system_error`.
    template <class A = Allocator>
    memory_resource(void* region, std::size_t bytes, const std::optional<typename A::config_type>& config = {})
        : to_(heap<A>(region, bytes, config).get()) {}
    memory_resource(const memory_resource&) = delete;
    memory_resource& operator=(const memory_resource&) = delete;
    ~memory_resource() override = default;

    /// What refers to the heap.
    typename Allocator::reference refer() const noexcept { return to_; }

  protected:
    /// Allocates.
    void* do_allocate(std::size_t bytes, std::size_t align) override {
        void* block = nullptr;
        const rt_error why = Allocator::allocate(to_, align, detail::at_least_one(bytes), &block);
        if (why != RT_OK) detail::refuse(why);
        return block;
    }
    /// Gives back.
    void do_deallocate(void* block, std::size_t, std::size_t) override { Allocator::free(to_, block); }
    /// Whether it is the same.
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  private:
    typename Allocator::reference to_;
};

/// As `memory_resource`, for several threads: every operation holds a `Mutex`, anything with `lock` and `unlock`. For threads with deadlines
/// that is a lock with a priority ceiling, or with priority inheritance; or take `rtalloc::arenas`, which wait for nobody.
template <class Allocator, class Mutex> class synchronized_resource : public memory_resource<Allocator> {
  public:
    using memory_resource<Allocator>::memory_resource;

    /// The lock, for who wants several operations in one.
    Mutex& mutex() const noexcept { return mutex_; }

  protected:
    /// Allocates.
    void* do_allocate(std::size_t bytes, std::size_t align) override {
        const held hold(mutex_);
        return memory_resource<Allocator>::do_allocate(bytes, align);
    }
    /// Gives back.
    void do_deallocate(void* block, std::size_t bytes, std::size_t align) override {
        const held hold(mutex_);
        memory_resource<Allocator>::do_deallocate(block, bytes, align);
    }

  private:
    /// Holds the lock. (`std::lock_guard` is in a header that not every platform has.)
    struct held {
        explicit held(Mutex& lock) : lock_(lock) { lock_.lock(); }
        held(const held&) = delete;
        held& operator=(const held&) = delete;
        ~held() { lock_.unlock(); }
        Mutex& lock_;
    };

    mutable Mutex mutex_;
};

/// A shared heap as a `std::pmr::memory_resource` of all threads that have a slot: `Current` is called, and says whose number the thread
/// has, `std::size_t() noexcept`. Who has none says a number that is not less than the heap's slots, and is refused; what it
/// frees stays allocated. No operation waits for another thread.
template <class Allocator, class Current> class shared_resource : public std::pmr::memory_resource {
  public:
    /// Of a heap, which outlives it.
    explicit shared_resource(shared_heap<Allocator>& heap, Current current = Current())
        : heap_(heap.get()), current_(std::move(current)) {}
    shared_resource(const shared_resource&) = delete;
    shared_resource& operator=(const shared_resource&) = delete;
    ~shared_resource() override = default;

  protected:
    /// Allocates.
    void* do_allocate(std::size_t bytes, std::size_t align) override {
        void* block = nullptr;
        const rt_error why = Allocator::allocate(heap_, current_(), align, detail::at_least_one(bytes), &block);
        if (why != RT_OK) detail::refuse(why);
        return block;
    }
    /// Gives back.
    void do_deallocate(void* block, std::size_t, std::size_t) override { Allocator::free(heap_, current_(), block); }
    /// Whether it is the same.
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  private:
    typename Allocator::heap_type* heap_;
    Current current_;
};

#endif // __cpp_lib_memory_resource

} // namespace rtalloc

/// An `rt_error` as a `std::error_code`; found by its argument.
inline std::error_code make_error_code(rt_error error) noexcept {
    return std::error_code(static_cast<int>(error), rtalloc::category());
}

/// An `rt_error` is an error code without being asked.
template <> struct std::is_error_code_enum<rt_error> : std::true_type {};

#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif // RTALLOC_HPP
