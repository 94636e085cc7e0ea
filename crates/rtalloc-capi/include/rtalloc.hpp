/// @file
/// rtalloc for C++17: heaps in memory supplied by the program, as allocators for its containers.
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
/// Header only; uses rtalloc.h and librtalloc. Every heap rt_X of rtalloc.h is a type `rtalloc::X` here, which is the
/// argument of the templates: nothing is selected at run time, and only the calls of `std::pmr` are virtual.
///
/// | class | purpose |
/// |---|---|
/// | `heap<A>` | a heap in memory of the program; errors are exceptions or values |
/// | `static_heap<A, Bytes>` | the same with its own memory |
/// | `region_bytes_for<A>(limits)` | the bytes in which nothing within limits is refused, as a constant |
/// | `allocator<T, A>` | `std::vector<T, allocator<T, A>>` and all other containers |
/// | `memory_resource<A>` | `std::pmr` |
/// | `synchronized_resource<A, Mutex>` | `std::pmr` for several threads, with a lock |
/// | `shared_heap<A>`, `slot<A>` | a heap for several threads without waiting: each thread claims a slot |
/// | `allocator<T, in_slot<A>>`, `memory_resource<in_slot<A>>` | containers of the thread that owns the slot |
/// | `shared_resource<A, Current>` | `std::pmr` for several threads, using the slot of the calling thread |
/// | `guarded_tlsf`, `failing_tlsf`, `quota_tlsf`, `traced_tlsf`, `debug_tlsf` as `A` | heaps for debugging; see below |
/// | `objects<A>`, `object<A>` | objects that move, so that memory use depends on the live objects only |
/// | `shared_objects`, `pin` | the same for several threads |
///
/// The heaps for debugging detect misuse, inject failures, limit components, or record operations. Their other
/// functions are in rtalloc.h, for example `rt_traced_tlsf_mark(heap.get(), 7)`.
///
/// # Threads
///
/// Only one thread at a time may use a heap, directly or through an allocator or resource; the same holds for a slot of
/// a shared heap. An interrupt or signal handler counts as a thread, because it may interrupt an operation.
///
/// # Versions
///
/// As rtalloc.h: RT_VERSION_MAJOR and RT_VERSION_MINOR determine when programs must be recompiled.
///
/// # Errors
///
/// A refused operation changes nothing. Functions whose names begin with `try_` throw no exception of their own: they
/// return a null pointer or a `result`, which is a value or an `rt_error`. (`try_make_unique` propagates exceptions of
/// the constructor.) The others throw `rtalloc::bad_alloc`, a `std::bad_alloc` with the reason, or `std::system_error`
/// if a heap cannot be created. Without exceptions (-fno-exceptions) they call `RTALLOC_REFUSED(error)` instead, which
/// must not return. It is `std::abort()` unless the program defines it before it includes this header. Nothing here
/// needs run-time type information (-fno-rtti).
///
/// An `rt_error` converts to a `std::error_code`: `std::error_code why = RT_ERROR_EXHAUSTED;`
///
/// # Time
///
/// As the function of rtalloc.h, plus a few instructions. No function here has a loop.
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
/// Called instead of throwing an exception. Must not return.
#define RTALLOC_REFUSED(error) std::abort()
#endif

#if defined(__GNUC__)
// Parameters here may have the same names as global names of the program.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

/// The region heaps, one line each. `MORE`: further regions can be added. `ONE`: only one region.
#define RTALLOC_ALLOCATORS(MORE, ONE)                                                                                  \
    MORE(tlsf)                                                                                                         \
    MORE(tlsf_no_stats)                                                                                                \
    MORE(tlsf_exact)                                                                                                   \
    MORE(tlsf_small)                                                                                                   \
    MORE(tlsf_unchecked)                                                                                               \
    MORE(tlsf_own_tag)                                                                                                 \
    MORE(tlsf_full_validation)                                                                                         \
    MORE(half_fit)                                                                                                     \
    ONE(quick_fit)                                                                                                     \
    ONE(simple_segregated)                                                                                             \
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
    ONE(fibonacci_buddy)                                                                                               \
    ONE(weighted_buddy)                                                                                                \
    ONE(double_buddy)                                                                                                  \
    ONE(bitframe)                                                                                                      \
    ONE(regis1)                                                                                                        \
    ONE(regis2)                                                                                                        \
    ONE(reaps)

/// The region heaps for debugging, each with its own configuration, `rt_X_config`. `MORE` and `ONE` as above.
#define RTALLOC_DEBUG_ALLOCATORS(MORE, ONE)                                                                            \
    ONE(pools)                                                                                                         \
    ONE(guarded_tlsf)                                                                                                  \
    MORE(failing_tlsf)                                                                                                 \
    ONE(quota_tlsf)                                                                                                    \
    MORE(traced_tlsf)                                                                                                  \
    ONE(debug_tlsf)

/// The shared heaps.
#define RTALLOC_SHARED_ALLOCATORS(SHARED)                                                                              \
    SHARED(arenas)                                                                                                     \
    SHARED(bitmap_buddy)                                                                                               \
    SHARED(tree_buddy)

/// The handle heaps, except the shared one, `shared_compact_fit`. `WHOLE`: each object is contiguous.
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
            case RT_ERROR_OVERLAP:
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

/// A refused request, with the reason.
class bad_alloc : public std::bad_alloc {
  public:
    explicit bad_alloc(rt_error why) noexcept : why_(why) {}
    /// The reason.
    rt_error why() const noexcept { return why_; }
    /// The text of the reason.
    const char* what() const noexcept override { return rt_strerror(why_); }

  private:
    rt_error why_;
};

/// Implementation details.
namespace detail {

/// Throws `bad_alloc`.
[[noreturn]] inline void refuse(rt_error why) {
#if defined(__cpp_exceptions)
    throw bad_alloc(why);
#else
    static_cast<void>(why);
    RTALLOC_REFUSED(why);
#endif
}

/// Throws `std::system_error`.
[[noreturn]] inline void fail(rt_error why) {
#if defined(__cpp_exceptions)
    throw std::system_error(static_cast<int>(why), category());
#else
    static_cast<void>(why);
    RTALLOC_REFUSED(why);
#endif
}

/// Zero bytes become one byte, because C++ requires a unique address.
constexpr std::size_t at_least_one(std::size_t bytes) noexcept { return bytes == 0 ? 1 : bytes; }

/// The bytes of `count` objects, or the largest number if that overflows.
template <class T> constexpr std::size_t bytes_of(std::size_t count) noexcept {
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
    return count > most / sizeof(T) ? most : count * sizeof(T);
}

} // namespace detail

/// A value or an error.
template <class T> class [[nodiscard]] result {
  public:
    /// A value.
    result(T value) noexcept(std::is_nothrow_move_constructible_v<T>) : value_(std::move(value)) {}
    /// An error: `why` is not `RT_OK`.
    result(rt_error why) noexcept : why_(why) {}

    /// Whether there is a value.
    explicit operator bool() const noexcept { return value_.has_value(); }
    /// Whether there is a value.
    bool has_value() const noexcept { return value_.has_value(); }
    /// The error; `RT_OK` if there is a value.
    rt_error error() const noexcept { return why_; }

    /// The value. There must be one.
    T& operator*() & noexcept { return *value_; }
    /// The value. There must be one.
    const T& operator*() const& noexcept { return *value_; }
    /// The value. There must be one.
    T&& operator*() && noexcept { return std::move(*value_); }
    /// A member of the value. There must be one.
    T* operator->() noexcept { return &*value_; }
    /// A member of the value. There must be one.
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
    /// The value, or `other` if there is none.
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
    rt_region value; ///< The identifier in rtalloc.h.
};

// The functions of each heap under the same names. All take a reference to a heap: a pointer, and for shared heaps also
// a slot.
#define RTALLOC_QUESTIONS(X)                                                                                           \
    using heap_type = ::rt_##X;                                                                                        \
    static constexpr const char* name = #X;                                                                            \
    static rt_error check(const heap_type* heap, rt_corruption* where) noexcept {                                      \
        return ::rt_##X##_check(heap, where);                                                                          \
    }
#define RTALLOC_BOUND(X)                                                                                               \
    static std::uint64_t bound(rt_operation operation) noexcept { return ::rt_##X##_bound(operation); }

#define RTALLOC_VERBS(X, CONFIG)                                                                                       \
    RTALLOC_QUESTIONS(X)                                                                                               \
    RTALLOC_BOUND(X)                                                                                                   \
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
        static std::uint64_t bound(const heap_type* heap, rt_operation operation) noexcept {                           \
            return ::rt_##X##_bound(heap, operation);                                                                  \
        }                                                                                                              \
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
        static rt_error max_steps(const heap_type* heap, rt_operation operation, std::size_t align, std::size_t bytes, \
                                   rt_steps* steps) noexcept {                                                         \
            return ::rt_##X##_max_steps(heap, operation, align, bytes, steps);                                         \
        }                                                                                                              \
        static const rt_shared_contract& contract() noexcept { return *::rt_##X##_contract(); }                        \
    };
#define RTALLOC_OBJECTS(X)                                                                                             \
    RTALLOC_QUESTIONS(X)                                                                                               \
    RTALLOC_BOUND(X)                                                                                                   \
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
    static std::size_t pending_bytes(const heap_type* heap) noexcept { return ::rt_##X##_pending_bytes(heap); }        \
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
#undef RTALLOC_BOUND

/// A slot of a shared heap, as the argument of `allocator` and `memory_resource`: for containers that one thread uses.
///
/// A container keeps its slot when another container is assigned to it, and takes over the memory of a container of
/// another slot that is moved into it: `mine = std::move(theirs)` moves a container to this thread. (A move constructor
/// takes the slot of its argument: also pass the constructor an allocator of the own slot.)
template <class Allocator> struct in_slot {
    /// The heap and the number of the slot.
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
    static const rt_contract& contract() noexcept { return Allocator::contract().single_user; }
};

/// Frees an object of `make_unique`.
template <class T, class Allocator> class deleter {
  public:
    /// Without a heap.
    deleter() noexcept = default;
    /// For objects in a heap.
    explicit deleter(typename Allocator::reference to) noexcept : to_(to) {}

    /// Destroys the object and frees its memory.
    void operator()(T* object) const noexcept {
        object->~T();
        Allocator::free(to_, const_cast<std::remove_cv_t<T>*>(object));
    }

  private:
    typename Allocator::reference to_{};
};

namespace detail {

/// Calls a visitor for each block of a heap. `begin` calls the walk function of C.
template <class Shown, class Visitor, class Begin> void tour(Visitor& visitor, Begin begin) {
#if defined(__cpp_exceptions)
    // Exceptions must not propagate through functions of C.
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
    using reference = typename Allocator::reference;                                 ///< A reference to the heap.
    template <class T> using unique_ptr = std::unique_ptr<T, deleter<T, Allocator>>; ///< A pointer to an object in the heap.

    /// Default alignment: sufficient for every fundamental type, or the alignment of the allocator's blocks if that is
    /// less.
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
    /// Allocates, or returns the error. 0 bytes are refused.
    result<void*> try_allocate(std::size_t bytes) noexcept { return try_allocate(bytes, natural_align()); }
    /// Allocates at a multiple of `align`, or returns the error. 0 bytes are refused.
    result<void*> try_allocate(std::size_t bytes, std::size_t align) noexcept {
        void* block = nullptr;
        const rt_error why = Allocator::allocate(to_, align, bytes, &block);
        return why == RT_OK ? result<void*>(block) : result<void*>(why);
    }
    /// Resizes a block, in place or by moving it, or returns the error and leaves the block unchanged.
    result<void*> try_reallocate(void* block, std::size_t bytes) noexcept {
        return try_reallocate(block, bytes, natural_align());
    }
    /// As above, at a multiple of `align`.
    result<void*> try_reallocate(void* block, std::size_t bytes, std::size_t align) noexcept {
        const rt_error why = Allocator::reallocate(to_, &block, align, bytes);
        return why == RT_OK ? result<void*>(block) : result<void*>(why);
    }
    /// Frees a block. A null pointer is ignored.
    void deallocate(void* block) noexcept { Allocator::free(to_, block); }

    /// Creates an object. Throws `bad_alloc`, and propagates exceptions of its constructor.
    template <class T, class... Arguments> unique_ptr<T> make_unique(Arguments&&... arguments) {
        return built<T>(allocate(sizeof(T), alignof(T)), std::forward<Arguments>(arguments)...);
    }
    /// Creates an object, or returns a null pointer if there is no memory. Propagates exceptions of its constructor.
    template <class T, class... Arguments> unique_ptr<T> try_make_unique(Arguments&&... arguments) {
        void* place = Allocator::aligned_alloc(to_, alignof(T), sizeof(T));
        if (place == nullptr) return unique_ptr<T>(nullptr, deleter<T, Allocator>(to_));
        return built<T>(place, std::forward<Arguments>(arguments)...);
    }

    /// Usable bytes of a live block: at least the requested size.
    std::size_t usable_size(const void* block) const noexcept { return Allocator::usable_size(to_, block); }
    /// The size of a request that is guaranteed to succeed now; for a slot, if no other thread uses the heap.
    std::size_t largest() const noexcept { return Allocator::largest(to_); }

    /// A reference to the heap.
    reference refer() const noexcept { return to_; }

  protected:
    operations() noexcept = default;
    explicit operations(reference to) noexcept : to_(to) {}
    ~operations() = default;

    reference to_{};

  private:
    template <class T, class... Arguments> unique_ptr<T> built(void* place, Arguments&&... arguments) {
        static_assert(!std::is_array_v<T>, "an array is a std::vector with an rtalloc::allocator");
        // If the constructor throws, the memory is freed.
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

/// A heap in memory of the program, which must outlive it. Movable, not copyable. Allocators and resources created from
/// it remain valid after a move, because they refer to the memory.
///
/// The destructor does nothing: it neither frees blocks nor destroys the objects in them.
template <class Allocator> class heap : public detail::operations<Allocator> {
  public:
    using allocator_type = Allocator;                ///< The allocator.
    using heap_type = typename Allocator::heap_type; ///< The type of the heap in rtalloc.h.
    /// The configuration: see rtalloc.h.
    using config_type = std::optional<typename Allocator::config_type>;

    /// Creates a heap in `bytes` bytes at `region`, which may have any alignment. Throws `std::system_error`.
    heap(void* region, std::size_t bytes, const config_type& config = {}) {
        const rt_error why = Allocator::init(region, bytes, config ? &*config : nullptr, &this->to_);
        if (why != RT_OK) detail::fail(why);
    }
    /// Creates a heap in an array.
    template <std::size_t Bytes>
    explicit heap(std::byte (&region)[Bytes], const config_type& config = {}) : heap(region, Bytes, config) {}
    /// Creates a heap in an array.
    template <std::size_t Bytes>
    explicit heap(unsigned char (&region)[Bytes], const config_type& config = {}) : heap(region, Bytes, config) {}
    /// Creates a heap in an array.
    template <std::size_t Bytes>
    explicit heap(std::array<std::byte, Bytes>& region, const config_type& config = {})
        : heap(region.data(), Bytes, config) {}
#if defined(__cpp_lib_span)
    /// Creates a heap in a span.
    explicit heap(std::span<std::byte> region, const config_type& config = {})
        : heap(region.data(), region.size(), config) {}
#endif

    /// Creates a heap, or returns the error.
    static result<heap> try_make(void* region, std::size_t bytes, const config_type& config = {}) noexcept {
        heap_type* made = nullptr;
        const rt_error why = Allocator::init(region, bytes, config ? &*config : nullptr, &made);
        return why == RT_OK ? result<heap>(heap(made)) : result<heap>(why);
    }
    /// A heap from the pointer of `get`, for example a heap created in C or in shared memory.
    static heap adopt(heap_type* made) noexcept { return heap(made); }

    heap(const heap&) = delete;
    heap& operator=(const heap&) = delete;
    /// Moves the heap. The other then has none, and refuses every request with `RT_ERROR_NULL`.
    heap(heap&& other) noexcept : heap(std::exchange(other.to_, nullptr)) {}
    /// As the constructor.
    heap& operator=(heap&& other) noexcept {
        this->to_ = std::exchange(other.to_, nullptr);
        return *this;
    }
    ~heap() = default;

    /// Statistics. If the heap keeps none, all are 0 except the largest request.
    rt_stats stats() const noexcept {
        rt_stats stats{};
        Allocator::stats(get(), &stats);
        return stats;
    }
    /// Calls the visitor for every block, `const rt_block&`, in address order. The visitor may throw, which ends the
    /// walk, but must not modify the heap.
    template <class Visitor> void walk(Visitor&& visitor) const {
        detail::tour<rt_block>(visitor, [this](rt_visitor show, void* tour) { Allocator::walk(get(), show, tour); });
    }
    /// Verifies every invariant and returns the first broken one, if any.
    std::optional<rt_corruption> check() const noexcept { return detail::checked<Allocator>(get()); }

    /// Adds a region, or returns the error. The region must outlive the heap or be removed. Only for heaps with further
    /// regions.
    result<region_id> try_add_region(void* region, std::size_t bytes) noexcept {
        static_assert(Allocator::takes_regions, "this allocator has the region it was made in, and no other");
        rt_region added{};
        const rt_error why = Allocator::add_region(get(), region, bytes, &added);
        return why == RT_OK ? result<region_id>(region_id{added}) : result<region_id>(why);
    }
    /// Removes an added region, whose memory belongs to the caller again, or returns the error.
    [[nodiscard]] rt_error try_remove_region(region_id region) noexcept {
        static_assert(Allocator::takes_regions, "this allocator has the region it was made in, and no other");
        return Allocator::remove_region(get(), region.value);
    }

    /// The contract of the allocator.
    static const rt_contract& contract() noexcept { return Allocator::contract(); }
    /// The instruction bound of an operation if the code in memory is that of the proof; otherwise 0, unknown.
    static std::uint64_t bound(rt_operation operation) noexcept { return Allocator::bound(operation); }

    /// The heap as a pointer of rtalloc.h; null after a move.
    heap_type* get() const noexcept { return this->to_; }

  private:
    explicit heap(heap_type* made) noexcept : detail::operations<Allocator>(made) {}
};

namespace detail {

/// Memory as a member.
template <std::size_t Bytes> struct storage {
    alignas(std::max_align_t) std::byte bytes[Bytes];
};

} // namespace detail

/// A heap that contains its memory: for a static variable, a member or the stack. It cannot be moved. Everything that
/// refers to it must end first, including a `heap` that it is moved into, which does not take the memory along.
template <class Allocator, std::size_t Bytes> class static_heap : private detail::storage<Bytes>, public heap<Allocator> {
  public:
    /// Creates the heap. Throws `std::system_error` if the allocator needs more than `Bytes`.
    explicit static_heap(const typename heap<Allocator>::config_type& config = {}) : heap<Allocator>(this->bytes, Bytes, config) {}
    static_heap(static_heap&&) = delete;
    static_heap& operator=(static_heap&&) = delete;
};

/// At most `objects` live objects of `smallest_bytes` to `largest_bytes` bytes each.
constexpr rt_limit between(std::size_t objects, std::size_t smallest_bytes, std::size_t largest_bytes) noexcept {
    return rt_limit{objects, 0, smallest_bytes, largest_bytes};
}
/// At most `objects` live objects of up to `bytes` bytes each.
constexpr rt_limit up_to(std::size_t objects, std::size_t bytes) noexcept { return between(objects, 1, bytes); }
/// At most `bytes` live bytes, as requested, in objects of `smallest_bytes` to `largest_bytes` bytes each.
constexpr rt_limit live(std::size_t bytes, std::size_t smallest_bytes, std::size_t largest_bytes) noexcept {
    return rt_limit{0, bytes, smallest_bytes, largest_bytes};
}

namespace detail {

constexpr std::size_t no_region = std::numeric_limits<std::size_t>::max();
/// More than the control structure of a heap, and what is lost where a region is not aligned.
constexpr std::size_t control_bytes = 24 * sizeof(void*);
/// Bytes of the smallest block, of a header, of a page, and of the largest region.
constexpr std::size_t unit_bytes = 2 * sizeof(void*), header_bytes = 4, page_bytes = 4096, most_bytes = 0xffffffff;

constexpr std::size_t sum(std::size_t a, std::size_t b) { return a > no_region - b ? no_region : a + b; }
constexpr std::size_t product(std::size_t a, std::size_t b) { return b != 0 && a > no_region / b ? no_region : a * b; }

/// The most objects of `from` to `to` bytes that a limit allows.
constexpr std::size_t most_objects(const rt_limit& limit, std::size_t from, std::size_t to) {
    const std::size_t least = limit.smallest_bytes == 0 ? 1 : limit.smallest_bytes;
    if (from < least) from = least;
    if (from > to || from > limit.largest_bytes) return 0;
    return limit.objects != 0 ? limit.objects : limit.live_bytes / from;
}

/// The same for several limits that hold at the same time.
template <std::size_t N> constexpr std::size_t most_objects(const rt_limit (&limits)[N], std::size_t from, std::size_t to) {
    std::size_t objects = 0;
    for (const rt_limit& limit : limits) objects = sum(objects, most_objects(limit, from, to));
    return objects;
}

/// The largest request; `no_region` if a limit is invalid.
template <std::size_t N> constexpr std::size_t largest_bytes(const rt_limit (&limits)[N]) {
    std::size_t largest = 0;
    for (const rt_limit& limit : limits) {
        const bool is_valid = (limit.objects == 0) != (limit.live_bytes == 0) && limit.largest_bytes != 0;
        if (!is_valid || limit.smallest_bytes > limit.largest_bytes) return no_region;
        // No request is larger than what may be live.
        const bool is_clipped = limit.live_bytes != 0 && limit.live_bytes < limit.largest_bytes;
        const std::size_t of_limit = is_clipped ? limit.live_bytes : limit.largest_bytes;
        if (of_limit > largest) largest = of_limit;
    }
    return largest;
}

template <class Allocator> struct region_for;

/// docs/guarantees/binary-buddy.md
template <> struct region_for<binary_buddy> {
    template <std::size_t N> static constexpr std::size_t bytes(const rt_limit (&limits)[N], std::size_t largest) {
        std::size_t blocks = 0, block_bytes = unit_bytes, below_bytes = 0, log2 = 1;
        for (;;) {
            const std::size_t divided = blocks / 2 + blocks % 2;
            const std::size_t of_size = sum(most_objects(limits, below_bytes + 1, block_bytes), divided);
            const std::size_t objects = most_objects(limits, 1, block_bytes);
            blocks = of_size < objects ? of_size : objects;
            if (block_bytes >= largest) break;
            if (block_bytes > most_bytes / 2) return no_region;
            below_bytes = block_bytes;
            block_bytes *= 2;
        }
        const std::size_t span_bytes = sum(product(blocks, block_bytes), block_bytes);
        while (log2 < 32 && (span_bytes >> log2) != 0) ++log2;
        // A head for each size, and a byte for each smallest block.
        return sum(span_bytes, sum((log2 + 3) * 4, span_bytes / unit_bytes + unit_bytes));
    }
};

/// docs/guarantees/segregated.md
template <> struct region_for<kingsley> {
    template <std::size_t N> static constexpr std::size_t bytes(const rt_limit (&limits)[N], std::size_t largest) {
        std::size_t all_bytes = 0, below_bytes = 0;
        for (std::size_t block_bytes = unit_bytes;; block_bytes *= 2) {
            const std::size_t request_bytes = block_bytes - header_bytes;
            const std::size_t objects = most_objects(limits, below_bytes + 1, request_bytes);
            const std::size_t in_page = block_bytes < page_bytes ? page_bytes / block_bytes : 1;
            const std::size_t bytes = block_bytes < page_bytes ? page_bytes : block_bytes;
            all_bytes = sum(all_bytes, product(objects / in_page + (objects % in_page != 0), bytes));
            if (request_bytes >= largest) break;
            if (block_bytes > most_bytes / 2) return no_region;
            below_bytes = request_bytes;
        }
        return sum(all_bytes, page_bytes + 48 * header_bytes);
    }
};

/// docs/guarantees/segregated.md
template <> struct region_for<simple_segregated> {
    template <std::size_t N> static constexpr std::size_t bytes(const rt_limit (&limits)[N], std::size_t largest) {
        constexpr std::size_t classes = 64;
        if (largest > classes * unit_bytes - header_bytes) return no_region;
        std::size_t all_bytes = 0;
        for (std::size_t number = 1; number <= classes; ++number) {
            const std::size_t request_bytes = number * unit_bytes - header_bytes;
            const std::size_t below_bytes = number == 1 ? 0 : request_bytes - unit_bytes;
            const std::size_t objects = most_objects(limits, below_bytes + 1, request_bytes);
            all_bytes = sum(all_bytes, product(objects, number * unit_bytes));
        }
        return sum(all_bytes, (classes + 1) * header_bytes + unit_bytes);
    }
};

/// docs/guarantees/segregated.md, with the largest request of each pool
template <std::size_t N> constexpr std::size_t bytes_in_pools(const rt_pools_config& pools, const rt_limit (&limits)[N], std::size_t largest) {
    std::size_t all_bytes = 0, below_bytes = 0;
    for (std::size_t number = 0; number < RT_MOST_POOLS; ++number) {
        // Powers of two by default.
        const bool is_default = pools.largest_bytes[0] == 0;
        if (is_default && pools.largest_bytes[number] != 0) return no_region;
        const std::size_t chosen = is_default ? (unit_bytes << number) - header_bytes : pools.largest_bytes[number];
        if (chosen == 0) continue;
        const std::size_t block_bytes = (chosen + header_bytes + unit_bytes - 1) / unit_bytes * unit_bytes;
        const bool ascends = is_default || number == 0 || (pools.largest_bytes[number - 1] != 0 && pools.largest_bytes[number - 1] < chosen);
        if (!ascends || chosen > most_bytes / 2) return no_region;
        all_bytes = sum(all_bytes, product(most_objects(limits, below_bytes + 1, block_bytes - header_bytes), block_bytes));
        below_bytes = block_bytes - header_bytes;
    }
    return below_bytes < largest ? no_region : sum(all_bytes, (RT_MOST_POOLS + 1) * header_bytes + RT_MOST_POOLS * 4 + unit_bytes);
}

} // namespace detail

/// Bytes of a region, wherever it starts, in which a heap of these pools never refuses a request within the limits: a
/// constant expression, for `static_heap` or `static_assert`. The largest `std::size_t` if no region suffices, a request
/// is larger than the largest pool's, or a limit or the pools are invalid. Up to a few hundred bytes larger than what
/// rt_pools_region_bytes_for computes, whose documentation has the assumptions.
template <std::size_t N> constexpr std::size_t region_bytes_for(const rt_pools_config& pools, const rt_limit (&limits)[N]) noexcept {
    const std::size_t largest = detail::largest_bytes(limits);
    if (largest == detail::no_region) return largest;
    const std::size_t bytes = detail::sum(detail::bytes_in_pools(pools, limits, largest), detail::control_bytes);
    return bytes > detail::most_bytes ? detail::no_region : bytes;
}

/// Bytes of a region, wherever it starts, in which no request within the limits is ever refused, whatever the order of
/// requests and frees: a constant expression, for `static_heap` or `static_assert`. `Allocator` is `binary_buddy`,
/// `kingsley` or `simple_segregated`. The largest `std::size_t` if no region suffices or a limit is invalid. It is up to
/// a few hundred bytes, and of a single limit on live bytes up to twice, larger than what rt_X_region_bytes_for
/// computes, whose documentation has the assumptions.
template <class Allocator, std::size_t N> constexpr std::size_t region_bytes_for(const rt_limit (&limits)[N]) noexcept {
    const std::size_t largest = detail::largest_bytes(limits);
    if (largest == detail::no_region) return largest;
    const std::size_t bytes = detail::sum(detail::region_for<Allocator>::bytes(limits, largest), detail::control_bytes);
    return bytes > detail::most_bytes ? detail::no_region : bytes;
}

namespace detail {

inline void enter(rt_quota_tlsf* heap, std::size_t component, std::size_t* before) noexcept {
    ::rt_quota_tlsf_enter(heap, component, before);
}
inline void enter(rt_debug_tlsf* heap, std::size_t component, std::size_t* before) noexcept {
    ::rt_debug_tlsf_enter(heap, component, before);
}

} // namespace detail

/// Selects a component of a heap with quotas for its lifetime. The destructor selects the previous component again.
template <class Allocator> class component {
  public:
    /// Selects the component with this number.
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

/// A heap as the allocator of a container, for one thread at a time. It refers to the heap, which must outlive it.
/// Allocators of the same heap are equal. A container propagates its allocator when it is copied, moved or swapped
/// (except with `in_slot`).
template <class T, class Allocator> class allocator {
    static_assert(!std::is_const_v<T> && !std::is_volatile_v<T> && !std::is_reference_v<T>, "containers hold objects");

  public:
    using reference_type = typename Allocator::reference;                                      ///< A reference to the heap.
    using value_type = T;                                                                      ///< The type of the objects.
    using propagate_on_container_copy_assignment = std::bool_constant<Allocator::goes_along>;  ///< Propagates.
    using propagate_on_container_move_assignment = std::bool_constant<Allocator::goes_along>;  ///< Propagates.
    using propagate_on_container_swap = std::bool_constant<Allocator::goes_along>;             ///< Propagates.
    using is_always_equal = std::false_type;                                                   ///< Heaps differ.
    /// The allocator of other objects in the same heap.
    template <class U> struct rebind {
        using other = allocator<U, Allocator>; ///< The allocator.
    };

    /// For a heap or a slot of one.
    allocator(detail::operations<Allocator>& heap) noexcept : to_(heap.refer()) {}
    /// For a heap, given a reference to it.
    explicit allocator(reference_type to) noexcept : to_(to) {}
    /// For the same heap.
    template <class U> allocator(const allocator<U, Allocator>& other) noexcept : to_(other.refer()) {}

    /// Memory for `count` objects. Throws `bad_alloc`, or `std::bad_array_new_length` if the size overflows.
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
    /// Memory for at least `count` objects: as many as the block has room for.
    [[nodiscard]] std::allocation_result<T*> allocate_at_least(std::size_t count) {
        T* block = allocate(count);
        return {block, Allocator::usable_size(to_, block) / sizeof(T)};
    }
#endif
    /// Frees memory.
    void deallocate(T* block, std::size_t) noexcept { Allocator::free(to_, block); }

    /// A reference to the heap.
    reference_type refer() const noexcept { return to_; }

  private:
    reference_type to_;
};

/// Whether both are of the same heap.
template <class T, class U, class Allocator>
bool operator==(const allocator<T, Allocator>& one, const allocator<U, Allocator>& other) noexcept {
    return Allocator::same_heap(one.refer(), other.refer());
}
/// Whether both are of different heaps.
template <class T, class U, class Allocator>
bool operator!=(const allocator<T, Allocator>& one, const allocator<U, Allocator>& other) noexcept {
    return !(one == other);
}

/// A claimed slot of a shared heap. The destructor releases it; its blocks stay live. Movable, not copyable.
template <class Allocator> class slot : public detail::operations<in_slot<Allocator>> {
    using base = detail::operations<in_slot<Allocator>>;

  public:
    using heap_type = typename Allocator::heap_type; ///< The type of the heap in rtalloc.h.

    slot(const slot&) = delete;
    slot& operator=(const slot&) = delete;
    /// Moves the slot. The other then has none, and refuses every request.
    slot(slot&& other) noexcept : base(std::exchange(other.to_, {})) {}
    /// As the constructor. Releases its own slot first.
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
    /// For idle time: reclaims at most `budget` blocks of this slot that others freed, and returns their number.
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

/// A heap for several threads in memory of the program, which must outlive it. Any thread may use it and claim a slot.
template <class Allocator> class shared_heap {
  public:
    using allocator_type = Allocator;                ///< The allocator.
    using heap_type = typename Allocator::heap_type; ///< The type of the heap in rtalloc.h.

    /// Creates a heap with `slots` slots. Throws `std::system_error`.
    shared_heap(void* region, std::size_t bytes, std::size_t slots)
        : shared_heap(region, bytes, rt_shared_config{slots, 0, 0}) {}
    /// Creates a heap. Throws `std::system_error`.
    shared_heap(void* region, std::size_t bytes, rt_shared_config config) {
        if (const rt_error why = Allocator::init(region, bytes, &config, &heap_); why != RT_OK) detail::fail(why);
    }
    /// Creates a heap in an array.
    template <std::size_t Bytes>
    shared_heap(std::byte (&region)[Bytes], std::size_t slots) : shared_heap(region, Bytes, slots) {}
#if defined(__cpp_lib_span)
    /// Creates a heap in a span.
    shared_heap(std::span<std::byte> region, std::size_t slots) : shared_heap(region.data(), region.size(), slots) {}
#endif
    /// Creates a heap, or returns the error.
    static result<shared_heap> try_make(void* region, std::size_t bytes, rt_shared_config config) noexcept {
        heap_type* made = nullptr;
        const rt_error why = Allocator::init(region, bytes, &config, &made);
        return why == RT_OK ? result<shared_heap>(shared_heap(made)) : result<shared_heap>(why);
    }
    /// A heap from the pointer of `get`, for example a heap created by another process.
    static shared_heap adopt(heap_type* made) noexcept { return shared_heap(made); }

    shared_heap(const shared_heap&) = delete;
    shared_heap& operator=(const shared_heap&) = delete;
    /// Moves the heap. Slots remain valid, because they refer to the memory.
    shared_heap(shared_heap&& other) noexcept : heap_(std::exchange(other.heap_, nullptr)) {}
    /// As the constructor.
    shared_heap& operator=(shared_heap&& other) noexcept {
        heap_ = std::exchange(other.heap_, nullptr);
        return *this;
    }
    ~shared_heap() = default;

    /// Number of slots.
    std::size_t slots() const noexcept { return Allocator::slots(heap_); }
    /// Claims an unclaimed slot. Throws `std::system_error` (`RT_ERROR_SLOT`) if all are claimed.
    rtalloc::slot<Allocator> claim() { return try_claim().value(); }
    /// Claims an unclaimed slot, or returns the error.
    result<rtalloc::slot<Allocator>> try_claim() noexcept {
        std::size_t number = 0;
        const rt_error why = Allocator::claim(heap_, &number);
        return claimed(why, number);
    }
    /// Claims this slot, or returns the error.
    result<rtalloc::slot<Allocator>> try_claim(std::size_t number) noexcept {
        return claimed(Allocator::take(heap_, number), number);
    }

    /// Requests refused so far, by reason.
    rt_refusals refusals() const noexcept {
        rt_refusals refusals{};
        Allocator::refusals(heap_, &refusals);
        return refusals;
    }
    /// Most steps on shared words that an operation on `bytes` bytes at a multiple of `align` takes, whatever other
    /// threads do; nothing if it may have to wait.
    std::optional<rt_steps> max_steps(rt_operation operation, std::size_t bytes, std::size_t align) const noexcept {
        rt_steps steps{};
        const rt_error why = Allocator::max_steps(heap_, operation, align, bytes, &steps);
        return why == RT_OK ? std::optional<rt_steps>(steps) : std::nullopt;
    }
    /// Calls the visitor for every block, `const rt_block&`. Nothing else may use the heap meanwhile.
    template <class Visitor> void walk(Visitor&& visitor) const {
        detail::tour<rt_block>(visitor, [this](rt_visitor show, void* tour) { Allocator::walk(heap_, show, tour); });
    }
    /// Verifies every invariant and returns the first broken one, if any. Nothing else may use the heap meanwhile.
    std::optional<rt_corruption> check() const noexcept { return detail::checked<Allocator>(heap_); }

    /// The contract of the allocator.
    static const rt_shared_contract& contract() noexcept { return Allocator::contract(); }
    /// The instruction bound of an operation in this heap if the code in memory is that of the proof; otherwise 0, unknown.
    std::uint64_t bound(rt_operation operation) const noexcept { return Allocator::bound(heap_, operation); }

    /// The heap as a pointer of rtalloc.h; null after a move.
    heap_type* get() const noexcept { return heap_; }

  private:
    explicit shared_heap(heap_type* made) noexcept : heap_(made) {}

    result<rtalloc::slot<Allocator>> claimed(rt_error why, std::size_t number) noexcept {
        using claim = result<rtalloc::slot<Allocator>>;
        return why == RT_OK ? claim(rtalloc::slot<Allocator>(heap_, number)) : claim(why);
    }

    heap_type* heap_ = nullptr;
};

/// An object that may move, identified by its handle. The destructor frees it. Movable, not copyable. The heap must
/// outlive it.
template <class Allocator> class object {
  public:
    using heap_type = typename Allocator::heap_type; ///< The type of the heap in rtalloc.h.

    /// No object.
    object() noexcept = default;
    object(const object&) = delete;
    object& operator=(const object&) = delete;
    /// Moves the object. The other then has none.
    object(object&& other) noexcept
        : heap_(std::exchange(other.heap_, nullptr)), handle_(std::exchange(other.handle_, 0)) {}
    /// As the constructor. Frees its own object first.
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
    /// Its handle: valid wherever the object moves, and stale after its free. 0: no object.
    rt_handle handle() const noexcept { return handle_; }
    /// Requested bytes; 0 if there is no object.
    std::size_t size() const noexcept {
        std::size_t bytes = 0;
        Allocator::size(heap_, handle_, &bytes);
        return bytes;
    }

    /// The address of the object, valid until the next operation of the heap that may move objects: any that is not
    /// `const`. Null if there is none. Only for heaps with contiguous objects.
    void* get() const noexcept {
        static_assert(Allocator::is_whole, "an object of this allocator is pieces: take read and write, or locate");
        void* place = nullptr;
        return Allocator::get(heap_, handle_, &place) == RT_OK ? place : nullptr;
    }
    /// The object as a trivially copyable type, or null if it is too small or not aligned. Valid as long as `get`.
    template <class T> T* as() const noexcept {
        static_assert(std::is_trivially_copyable_v<T>, "objects move by their bytes");
        return size() >= sizeof(T) && Allocator::contract().alignment_bytes % alignof(T) == 0 ? static_cast<T*>(get())
                                                                                              : nullptr;
    }
    /// The address of the byte at `offset` and the number of contiguous bytes from there, or the error.
    result<std::pair<void*, std::size_t>> locate(std::size_t offset) const noexcept {
        using where = std::pair<void*, std::size_t>;
        where found{};
        const rt_error why = Allocator::locate(heap_, handle_, offset, &found.first, &found.second);
        return why == RT_OK ? result<where>(found) : result<where>(why);
    }
    /// Copies bytes out of the object, starting at `offset`.
    [[nodiscard]] rt_error read(std::size_t offset, void* buffer, std::size_t bytes) const noexcept {
        return Allocator::read(heap_, handle_, offset, buffer, bytes);
    }
    /// Copies bytes into the object, starting at `offset`.
    [[nodiscard]] rt_error write(std::size_t offset, const void* buffer, std::size_t bytes) noexcept {
        return Allocator::write(heap_, handle_, offset, buffer, bytes);
    }
    /// Resizes the object. The handle stays valid, and the content is kept up to the smaller size. A refusal changes
    /// nothing.
    [[nodiscard]] rt_error resize(std::size_t bytes) noexcept { return Allocator::resize(heap_, handle_, bytes); }

    /// Frees the object, if there is one. `RT_ERROR_STALE_HANDLE`: it was already freed by its handle.
    rt_error reset() noexcept {
        const rt_error freed = heap_ == nullptr ? RT_OK : Allocator::free(heap_, handle_);
        heap_ = nullptr;
        handle_ = 0;
        return freed;
    }
    /// Releases the object and returns its handle. The caller must free it (`objects::adopt`).
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

/// A heap of objects that move, in memory of the program, which must outlive it. Its memory use depends on the live
/// objects only, not on history.
template <class Allocator = compact_fit> class objects {
  public:
    using allocator_type = Allocator;                ///< The allocator.
    using heap_type = typename Allocator::heap_type; ///< The type of the heap in rtalloc.h.
    using object_type = object<Allocator>;           ///< The type of its objects.
    /// The configuration: see rtalloc.h.
    using config_type = std::optional<rt_compact_fit_config>;

    /// Creates a heap. Throws `std::system_error`.
    objects(void* region, std::size_t bytes, const config_type& config = {}) {
        if (const rt_error why = Allocator::init(region, bytes, config ? &*config : nullptr, &heap_); why != RT_OK) detail::fail(why);
    }
    /// Creates a heap in an array.
    template <std::size_t Bytes>
    explicit objects(std::byte (&region)[Bytes], const config_type& config = {}) : objects(region, Bytes, config) {}
#if defined(__cpp_lib_span)
    /// Creates a heap in a span.
    explicit objects(std::span<std::byte> region, const config_type& config = {})
        : objects(region.data(), region.size(), config) {}
#endif
    /// Creates a heap, or returns the error.
    static result<objects> try_make(void* region, std::size_t bytes, const config_type& config = {}) noexcept {
        heap_type* made = nullptr;
        const rt_error why = Allocator::init(region, bytes, config ? &*config : nullptr, &made);
        return why == RT_OK ? result<objects>(objects(made)) : result<objects>(why);
    }

    objects(const objects&) = delete;
    objects& operator=(const objects&) = delete;
    /// Moves the heap. Objects remain valid, because they refer to the memory.
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
    /// Allocates an object, or returns the error.
    result<object_type> try_allocate(std::size_t bytes) noexcept {
        rt_handle handle = 0;
        const rt_error why = Allocator::allocate(heap_, bytes, &handle);
        return why == RT_OK ? result<object_type>(object_type(heap_, handle)) : result<object_type>(why);
    }
    /// The object of a handle from `object::release`. It is freed by its destructor.
    object_type adopt(rt_handle handle) noexcept { return object_type(heap_, handle); }

    /// Pending compaction: bytes still to be moved.
    std::size_t pending_bytes() const noexcept { return Allocator::pending_bytes(heap_); }
    /// For idle time: does pending compaction. Moves at most `budget` bytes and returns the bytes moved.
    std::size_t step(std::size_t budget) noexcept { return Allocator::step(heap_, budget); }
    /// The size of a request that is guaranteed to succeed now.
    std::size_t largest() const noexcept { return Allocator::largest(heap_); }
    /// Statistics.
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
    /// Calls the visitor for every object, `const rt_object&`. The visitor may throw but must not modify the heap.
    template <class Visitor> void walk(Visitor&& visitor) const {
        detail::tour<rt_object>(visitor,
                                [this](rt_object_visitor show, void* tour) { Allocator::walk(heap_, show, tour); });
    }
    /// Verifies every invariant and returns the first broken one, if any.
    std::optional<rt_corruption> check() const noexcept { return detail::checked<Allocator>(heap_); }

    /// The contract of the allocator.
    static const rt_contract& contract() noexcept { return Allocator::contract(); }
    /// The instruction bound of an operation if the code in memory is that of the proof; otherwise 0, unknown.
    static std::uint64_t bound(rt_operation operation) noexcept { return Allocator::bound(operation); }
    /// The heap as a pointer of rtalloc.h; null after a move.
    heap_type* get() const noexcept { return heap_; }

  private:
    explicit objects(heap_type* made) noexcept : heap_(made) {}

    heap_type* heap_ = nullptr;
};

/// A pin: keeps an object of a shared heap in place until it is destroyed. Movable, not copyable. Any thread may pin.
/// Data that several threads access at a time must be accessed with `read` and `write`.
class pin {
  public:
    pin(const pin&) = delete;
    pin& operator=(const pin&) = delete;
    /// Moves the pin. The other then pins nothing.
    pin(pin&& other) noexcept : pin_(std::exchange(other.pin_, rt_pin{})) {}
    /// As the constructor. Ends its own pin first.
    pin& operator=(pin&& other) noexcept {
        if (this != &other) {
            reset();
            pin_ = std::exchange(other.pin_, rt_pin{});
        }
        return *this;
    }
    ~pin() { reset(); }

    /// The address of the object.
    void* address() const noexcept { return pin_.address; }
    /// Bytes of the object.
    std::size_t size() const noexcept { return pin_.size_bytes; }
    /// Copies bytes out of the object, starting at `offset`, in atomic reads of four bytes.
    [[nodiscard]] rt_error read(std::size_t offset, void* buffer, std::size_t bytes) const noexcept {
        return rt_shared_compact_fit_read(&pin_, offset, buffer, bytes);
    }
    /// Copies bytes into the object, starting at `offset`, in atomic writes of four bytes.
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

/// Compact-fit for several threads, in memory of the program, which must outlive it.
class shared_objects {
  public:
    /// A claimed slot. The destructor releases it; its objects stay live. Movable, not copyable.
    class slot {
      public:
        slot(const slot&) = delete;
        slot& operator=(const slot&) = delete;
        /// Moves the slot. The other then has none.
        slot(slot&& other) noexcept
            : heap_(std::exchange(other.heap_, nullptr)), number_(std::exchange(other.number_, 0)) {}
        /// As the constructor. Releases its own slot first.
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
        /// Allocates an object, or returns the error. After `RT_ERROR_PENDING` and `RT_ERROR_CONTENDED`, a retry may
        /// succeed.
        result<rt_handle> try_allocate(std::size_t bytes) noexcept {
            rt_handle handle = 0;
            const rt_error why = rt_shared_compact_fit_allocate(heap_, number_, bytes, &handle);
            return why == RT_OK ? result<rt_handle>(handle) : result<rt_handle>(why);
        }
        /// Frees an object of any slot. If several threads free an object, exactly one succeeds.
        rt_error free(rt_handle handle) noexcept { return rt_shared_compact_fit_free(heap_, number_, handle); }
        /// For idle time: reclaims at most `budget` objects that others freed, and returns their number.
        std::size_t reclaim(std::size_t budget) noexcept {
            return rt_shared_compact_fit_reclaim(heap_, number_, budget);
        }
        /// For idle time: does pending compaction. Moves at most `budget` bytes and returns the bytes moved.
        std::size_t step(std::size_t budget) noexcept { return rt_shared_compact_fit_step(heap_, number_, budget); }
        /// Whether compaction is pending.
        bool has_pending_compaction() const noexcept {
            return rt_shared_compact_fit_has_pending_compaction(heap_, number_);
        }

      private:
        friend class shared_objects;
        slot(rt_shared_compact_fit* heap, std::size_t number) noexcept : heap_(heap), number_(number) {}
        void release() noexcept {
            if (heap_ != nullptr) rt_shared_compact_fit_release(heap_, number_);
        }

        rt_shared_compact_fit* heap_;
        std::size_t number_;
    };

    /// Creates a heap with `slots` slots. Throws `std::system_error`.
    shared_objects(void* region, std::size_t bytes, std::size_t slots)
        : shared_objects(region, bytes, rt_shared_objects_config{slots, 0, 0, 0, 0}) {}
    /// Creates a heap. Throws `std::system_error`.
    shared_objects(void* region, std::size_t bytes, rt_shared_objects_config config) {
        const rt_error why = rt_shared_compact_fit_init_with(region, bytes, &config, &heap_);
        if (why != RT_OK) detail::fail(why);
    }
    /// Creates a heap in an array.
    template <std::size_t Bytes>
    shared_objects(std::byte (&region)[Bytes], std::size_t slots) : shared_objects(region, Bytes, slots) {}

    shared_objects(const shared_objects&) = delete;
    shared_objects& operator=(const shared_objects&) = delete;
    ~shared_objects() = default;

    /// Number of slots.
    std::size_t slots() const noexcept { return rt_shared_compact_fit_slots(heap_); }
    /// Claims an unclaimed slot. Throws `std::system_error` (`RT_ERROR_SLOT`) if all are claimed.
    slot claim() { return try_claim().value(); }
    /// Claims an unclaimed slot, or returns the error.
    result<slot> try_claim() noexcept {
        std::size_t number = 0;
        const rt_error why = rt_shared_compact_fit_claim(heap_, &number);
        return why == RT_OK ? result<slot>(slot(heap_, number)) : result<slot>(why);
    }
    /// Pins an object of any slot, or returns the error. Needs no slot.
    result<pin> try_pin(rt_handle handle) const noexcept {
        rt_pin pinned{};
        const rt_error why = rt_shared_compact_fit_pin(heap_, handle, &pinned);
        return why == RT_OK ? result<pin>(pin(pinned)) : result<pin>(why);
    }
    /// Largest request that any heap serves, in bytes.
    static std::size_t largest_request() noexcept { return rt_shared_compact_fit_largest_request(); }
    /// Requests refused so far, by reason.
    rt_refusals refusals() const noexcept {
        rt_refusals refusals{};
        rt_shared_compact_fit_refusals(heap_, &refusals);
        return refusals;
    }
    /// Verifies every invariant and returns the first broken one, if any. Nothing else may use the heap meanwhile.
    std::optional<rt_corruption> check() const noexcept {
        rt_corruption where{};
        const rt_error why = rt_shared_compact_fit_check(heap_, &where);
        return why == RT_ERROR_CORRUPTION ? std::optional<rt_corruption>(where) : std::nullopt;
    }
    /// The heap as a pointer of rtalloc.h.
    rt_shared_compact_fit* get() const noexcept { return heap_; }

  private:
    rt_shared_compact_fit* heap_ = nullptr;
};

#if defined(__cpp_lib_memory_resource)

/// A heap as a `std::pmr::memory_resource`, for one thread at a time. It throws `bad_alloc` if a request is refused,
/// including a request for an unsupported alignment. It has no upstream resource.
///
/// A resource is equal only to itself: another resource of the same heap could deallocate its memory, but cannot be
/// recognised without run-time type information.
template <class Allocator> class memory_resource : public std::pmr::memory_resource {
  public:
    /// For a heap or a slot of one, which must outlive it.
    explicit memory_resource(detail::operations<Allocator>& heap) noexcept : to_(heap.refer()) {}
    /// For a heap that it creates in `bytes` bytes at `region`. Throws `std::system_error`.
    template <class A = Allocator>
    memory_resource(void* region, std::size_t bytes, const std::optional<typename A::config_type>& config = {})
        : to_(heap<A>(region, bytes, config).get()) {}
    memory_resource(const memory_resource&) = delete;
    memory_resource& operator=(const memory_resource&) = delete;
    ~memory_resource() override = default;

    /// A reference to the heap.
    typename Allocator::reference refer() const noexcept { return to_; }

  protected:
    /// Allocates.
    void* do_allocate(std::size_t bytes, std::size_t align) override {
        void* block = nullptr;
        const rt_error why = Allocator::allocate(to_, align, detail::at_least_one(bytes), &block);
        if (why != RT_OK) detail::refuse(why);
        return block;
    }
    /// Deallocates.
    void do_deallocate(void* block, std::size_t, std::size_t) override { Allocator::free(to_, block); }
    /// Whether it is the same object.
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  private:
    typename Allocator::reference to_;
};

/// As `memory_resource`, for several threads: every operation holds a `Mutex`, which is any type with `lock` and
/// `unlock`. For threads with deadlines, use a lock with a priority ceiling or priority inheritance, or use
/// `rtalloc::arenas`, which does not wait.
template <class Allocator, class Mutex> class synchronized_resource : public memory_resource<Allocator> {
  public:
    using memory_resource<Allocator>::memory_resource;

    /// The lock, to combine several operations.
    Mutex& mutex() const noexcept { return mutex_; }

  protected:
    /// Allocates.
    void* do_allocate(std::size_t bytes, std::size_t align) override {
        const held hold(mutex_);
        return memory_resource<Allocator>::do_allocate(bytes, align);
    }
    /// Deallocates.
    void do_deallocate(void* block, std::size_t bytes, std::size_t align) override {
        const held hold(mutex_);
        memory_resource<Allocator>::do_deallocate(block, bytes, align);
    }

  private:
    /// Holds the lock. (Not every platform has the header of `std::lock_guard`.)
    struct held {
        explicit held(Mutex& lock) : lock_(lock) { lock_.lock(); }
        held(const held&) = delete;
        held& operator=(const held&) = delete;
        ~held() { lock_.unlock(); }
        Mutex& lock_;
    };

    mutable Mutex mutex_;
};

/// A shared heap as a `std::pmr::memory_resource` for all threads that have a slot. `Current`, `std::size_t()
/// noexcept`, returns the slot number of the calling thread. A thread without a slot returns a number not less than the
/// heap's slots: its requests are refused, and what it frees stays allocated. No operation waits for another thread.
template <class Allocator, class Current> class shared_resource : public std::pmr::memory_resource {
  public:
    /// For a heap, which must outlive it.
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
    /// Deallocates.
    void do_deallocate(void* block, std::size_t, std::size_t) override { Allocator::free(heap_, current_(), block); }
    /// Whether it is the same object.
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  private:
    typename Allocator::heap_type* heap_;
    Current current_;
};

#endif // __cpp_lib_memory_resource

} // namespace rtalloc

/// An `rt_error` as a `std::error_code`; found by argument-dependent lookup.
inline std::error_code make_error_code(rt_error error) noexcept {
    return std::error_code(static_cast<int>(error), rtalloc::category());
}

/// An `rt_error` converts implicitly to an error code.
template <> struct std::is_error_code_enum<rt_error> : std::true_type {};

#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif // RTALLOC_HPP
