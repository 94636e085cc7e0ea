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
/// | `synchronized_resource<A, Mutex>` | `std::pmr`, for several threads |
///
/// # Threads
///
/// A heap is used by one thread at a time, through whatever refers to it.
///
/// # Errors
///
/// What is refused has changed nothing. Functions whose names begin with `try_` never throw: they answer a null pointer, or a `result`, which
/// is a value or an `rt_error`. The others throw `rtalloc::bad_alloc` (a `std::bad_alloc` that knows why), or
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

/// The allocators: a line for each. `MORE` takes further regions, `ONE` has the region it was made in.
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

// Each allocator's functions under one set of names.
#define RTALLOC_VERBS(X)                                                                                               \
    using heap_type = ::rt_##X;                                                                                        \
    static constexpr const char* name = #X;                                                                            \
    static rt_error init(void* region, std::size_t bytes, const rt_heap_config* config, heap_type** heap) noexcept {   \
        return ::rt_##X##_init_with(region, bytes, config, heap);                                                      \
    }                                                                                                                  \
    static rt_error allocate(heap_type* heap, std::size_t align, std::size_t bytes, void** block) noexcept {           \
        return ::rt_##X##_allocate(heap, align, bytes, block);                                                         \
    }                                                                                                                  \
    static void* aligned_alloc(heap_type* heap, std::size_t align, std::size_t bytes) noexcept {                       \
        return ::rt_##X##_aligned_alloc(heap, align, bytes);                                                           \
    }                                                                                                                  \
    static rt_error reallocate(heap_type* heap, void** block, std::size_t align, std::size_t bytes) noexcept {         \
        return ::rt_##X##_reallocate(heap, block, align, bytes);                                                       \
    }                                                                                                                  \
    static void free(heap_type* heap, void* block) noexcept { ::rt_##X##_free(heap, block); }                          \
    static std::size_t usable_size(const heap_type* heap, const void* block) noexcept {                                \
        return ::rt_##X##_usable_size(heap, block);                                                                    \
    }                                                                                                                  \
    static std::size_t largest(const heap_type* heap) noexcept { return ::rt_##X##_largest(heap); }                    \
    static rt_error stats(const heap_type* heap, rt_stats* stats) noexcept { return ::rt_##X##_stats(heap, stats); }   \
    static rt_error walk(const heap_type* heap, rt_visitor visitor, void* context) noexcept {                          \
        return ::rt_##X##_walk(heap, visitor, context);                                                                \
    }                                                                                                                  \
    static rt_error check(const heap_type* heap, rt_corruption* where) noexcept {                                      \
        return ::rt_##X##_check(heap, where);                                                                          \
    }                                                                                                                  \
    static const rt_contract& contract() noexcept { return *::rt_##X##_contract(); }                                   \
    static std::uint64_t bound(rt_operation operation) noexcept { return ::rt_##X##_bound(operation); }

#define RTALLOC_ONE(X)                                                                                                 \
    struct X {                                                                                                         \
        static constexpr bool takes_regions = false;                                                                   \
        RTALLOC_VERBS(X)                                                                                               \
    };
#define RTALLOC_MORE(X)                                                                                                \
    struct X {                                                                                                         \
        static constexpr bool takes_regions = true;                                                                    \
        RTALLOC_VERBS(X)                                                                                               \
        static rt_error add_region(heap_type* heap, void* region, std::size_t bytes, rt_region* added) noexcept {      \
            return ::rt_##X##_add_region(heap, region, bytes, added);                                                  \
        }                                                                                                              \
        static rt_error remove_region(heap_type* heap, rt_region region) noexcept {                                    \
            return ::rt_##X##_remove_region(heap, region);                                                             \
        }                                                                                                              \
    };

RTALLOC_ALLOCATORS(RTALLOC_MORE, RTALLOC_ONE)

#undef RTALLOC_MORE
#undef RTALLOC_ONE
#undef RTALLOC_VERBS

template <class Allocator> class heap;

/// Frees what `heap::make_unique` made.
template <class T, class Allocator> class deleter {
  public:
    /// For objects of no heap yet.
    deleter() noexcept = default;
    /// For objects of a heap.
    explicit deleter(typename Allocator::heap_type* heap) noexcept : heap_(heap) {}

    /// Destroys the object, and frees it.
    void operator()(T* object) const noexcept {
        object->~T();
        Allocator::free(heap_, const_cast<std::remove_cv_t<T>*>(object));
    }

  private:
    typename Allocator::heap_type* heap_ = nullptr;
};

/// A heap over memory of the program, which outlives it. Movable, not copyable: who has it may hand it on, and allocators and resources
/// that were made of it go on, because they refer to the memory.
///
/// It ends when nobody uses it any more, and needs nothing for that: its blocks are not freed one by one, nor are objects in
/// them destroyed.
template <class Allocator> class heap {
  public:
    using allocator_type = Allocator;                     ///< The allocator.
    using heap_type = typename Allocator::heap_type;      ///< The heap's type in rtalloc.h.
    template <class T> using unique_ptr = std::unique_ptr<T, deleter<T, Allocator>>; ///< Of what is in the heap.

    /// Makes a heap in `bytes` bytes at `region`, which may have any alignment. Throws `std::system_error`.
    heap(void* region, std::size_t bytes, rt_heap_config config = {}) {
        if (const rt_error why = Allocator::init(region, bytes, &config, &heap_); why != RT_OK) detail::fail(why);
    }
    /// Makes a heap in an array.
    template <std::size_t Bytes>
    explicit heap(std::byte (&region)[Bytes], rt_heap_config config = {}) : heap(region, Bytes, config) {}
    /// Makes a heap in an array.
    template <std::size_t Bytes>
    explicit heap(unsigned char (&region)[Bytes], rt_heap_config config = {}) : heap(region, Bytes, config) {}
    /// Makes a heap in an array.
    template <std::size_t Bytes>
    explicit heap(std::array<std::byte, Bytes>& region, rt_heap_config config = {})
        : heap(region.data(), Bytes, config) {}
#if defined(__cpp_lib_span)
    /// Makes a heap in a span.
    explicit heap(std::span<std::byte> region, rt_heap_config config = {})
        : heap(region.data(), region.size(), config) {}
#endif

    /// Makes a heap, or tells why not.
    static result<heap> try_make(void* region, std::size_t bytes, rt_heap_config config = {}) noexcept {
        heap_type* made = nullptr;
        const rt_error why = Allocator::init(region, bytes, &config, &made);
        return why == RT_OK ? result<heap>(heap(made)) : result<heap>(why);
    }

    /// The heap that `get` of another one told: of C, say, or of memory that is shared.
    static heap adopt(heap_type* made) noexcept { return heap(made); }

    heap(const heap&) = delete;
    heap& operator=(const heap&) = delete;
    /// Takes the other's heap; the other has none then, and refuses everything with `RT_ERROR_NULL`.
    heap(heap&& other) noexcept : heap_(std::exchange(other.heap_, nullptr)) {}
    /// As the constructor.
    heap& operator=(heap&& other) noexcept {
        heap_ = std::exchange(other.heap_, nullptr);
        return *this;
    }
    ~heap() = default;

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
        if (const rt_error why = Allocator::allocate(heap_, align, detail::at_least_one(bytes), &block); why != RT_OK) {
            detail::refuse(why);
        }
        return block;
    }
    /// Allocates, or tells why not; a request for nothing is refused.
    result<void*> try_allocate(std::size_t bytes) noexcept { return try_allocate(bytes, natural_align()); }
    /// Allocates at a multiple of `align`, or tells why not; a request for nothing is refused.
    result<void*> try_allocate(std::size_t bytes, std::size_t align) noexcept {
        void* block = nullptr;
        const rt_error why = Allocator::allocate(heap_, align, bytes, &block);
        return why == RT_OK ? result<void*>(block) : result<void*>(why);
    }
    /// Changes the size of a block, in place or by moving it, or tells why not: the block is then as it was.
    result<void*> try_reallocate(void* block, std::size_t bytes) noexcept {
        return try_reallocate(block, bytes, natural_align());
    }
    /// As above, at a multiple of `align`.
    result<void*> try_reallocate(void* block, std::size_t bytes, std::size_t align) noexcept {
        const rt_error why = Allocator::reallocate(heap_, &block, align, bytes);
        return why == RT_OK ? result<void*>(block) : result<void*>(why);
    }
    /// Gives a block back; a null pointer is ignored.
    void deallocate(void* block) noexcept { Allocator::free(heap_, block); }

    /// Makes an object. Throws `bad_alloc`, and what its constructor throws.
    template <class T, class... Arguments> unique_ptr<T> make_unique(Arguments&&... arguments) {
        void* place = allocate(sizeof(T), alignof(T));
        return built<T>(place, std::forward<Arguments>(arguments)...);
    }
    /// Makes an object, or a null pointer if there is no memory. Throws what its constructor throws.
    template <class T, class... Arguments> unique_ptr<T> try_make_unique(Arguments&&... arguments) {
        void* place = Allocator::aligned_alloc(heap_, alignof(T), sizeof(T));
        if (place == nullptr) return unique_ptr<T>(nullptr, deleter<T, Allocator>(heap_));
        return built<T>(place, std::forward<Arguments>(arguments)...);
    }

    /// Bytes that may be used at a live block: at least what was requested.
    std::size_t usable_size(const void* block) const noexcept { return Allocator::usable_size(heap_, block); }
    /// A promise: a request of this many bytes succeeds now.
    std::size_t largest() const noexcept { return Allocator::largest(heap_); }
    /// Tallies; of a heap that keeps none all are 0 but the largest request.
    rt_stats stats() const noexcept {
        rt_stats stats{};
        Allocator::stats(heap_, &stats);
        return stats;
    }
    /// Shows every block, `const rt_block&`, in the order of addresses. The visitor may throw, which ends the showing; it may not change the
    /// heap.
    template <class Visitor> void walk(Visitor&& visitor) const {
        using Plain = std::remove_reference_t<Visitor>;
#if defined(__cpp_exceptions)
        // No exception passes through functions of C.
        struct Tour {
            Plain* visitor;
            std::exception_ptr thrown;
        } tour{std::addressof(visitor), nullptr};
        const auto show = [](const rt_block* block, void* context) noexcept {
            auto& shown = *static_cast<Tour*>(context);
            if (shown.thrown) return;
            try {
                (*shown.visitor)(*block);
            } catch (...) {
                shown.thrown = std::current_exception();
            }
        };
        Allocator::walk(heap_, show, &tour);
        if (tour.thrown) std::rethrow_exception(tour.thrown);
#else
        struct Tour {
            Plain* visitor;
        } tour{std::addressof(visitor)};
        const auto show = [](const rt_block* block, void* context) noexcept {
            (*static_cast<Tour*>(context)->visitor)(*block);
        };
        Allocator::walk(heap_, show, &tour);
#endif
    }
    /// Verifies every invariant: the first that is broken, or nothing.
    std::optional<rt_corruption> check() const noexcept {
        rt_corruption where{};
        if (Allocator::check(heap_, &where) == RT_OK) return std::nullopt;
        return where;
    }

    /// Adds a region, which outlives the heap or is removed; or tells why not. For allocators that take further regions.
    result<region_id> try_add_region(void* region, std::size_t bytes) noexcept {
        static_assert(Allocator::takes_regions, "this allocator has the region it was made in, and no other");
        rt_region added{};
        const rt_error why = Allocator::add_region(heap_, region, bytes, &added);
        return why == RT_OK ? result<region_id>(region_id{added}) : result<region_id>(why);
    }
    /// Takes an added region back, whose memory is the caller's again; or tells why not.
    [[nodiscard]] rt_error try_remove_region(region_id region) noexcept {
        static_assert(Allocator::takes_regions, "this allocator has the region it was made in, and no other");
        return Allocator::remove_region(heap_, region.value);
    }

    /// What the allocator is and promises.
    static const rt_contract& contract() noexcept { return Allocator::contract(); }
    /// Most instructions of an operation, where that was proved; else 0.
    static std::uint64_t bound(rt_operation operation) noexcept { return Allocator::bound(operation); }

    /// The heap as rtalloc.h knows it; null if it was moved away.
    heap_type* get() const noexcept { return heap_; }

  private:
    explicit heap(heap_type* made) noexcept : heap_(made) {}

    template <class T, class... Arguments> unique_ptr<T> built(void* place, Arguments&&... arguments) {
        static_assert(!std::is_array_v<T>, "an array is a std::vector with an rtalloc::allocator");
        struct Guard {
            heap_type* heap;
            void* place;
            ~Guard() {
                if (place != nullptr) Allocator::free(heap, place);
            }
        } guard{heap_, place};
        T* object = ::new (place) T(std::forward<Arguments>(arguments)...);
        guard.place = nullptr;
        return unique_ptr<T>(object, deleter<T, Allocator>(heap_));
    }

    heap_type* heap_ = nullptr;
};

namespace detail {

/// Memory inside an object.
template <std::size_t Bytes> struct storage {
    alignas(std::max_align_t) std::byte bytes[Bytes];
};

} // namespace detail

/// A heap with its memory inside: for a static, a member or the stack. It stays where it is, with all that is in it.
template <class Allocator, std::size_t Bytes> class static_heap : private detail::storage<Bytes>, public heap<Allocator> {
  public:
    /// Makes the heap. Throws `std::system_error` where the allocator needs more than `Bytes`.
    explicit static_heap(rt_heap_config config = {}) : heap<Allocator>(this->bytes, Bytes, config) {}
    static_heap(static_heap&&) = delete;
    static_heap& operator=(static_heap&&) = delete;
};

/// A heap as the allocator of a container, for one thread at a time. It is a pointer; copies of it refer to the same heap, which
/// outlives them, and are equal. A container takes its allocator along when it is copied, moved or swapped.
template <class T, class Allocator> class allocator {
    static_assert(!std::is_const_v<T> && !std::is_volatile_v<T> && !std::is_reference_v<T>, "containers hold objects");

  public:
    using value_type = T;                                           ///< What is allocated.
    using propagate_on_container_copy_assignment = std::true_type;  ///< Taken along.
    using propagate_on_container_move_assignment = std::true_type;  ///< Taken along.
    using propagate_on_container_swap = std::true_type;             ///< Taken along.
    using is_always_equal = std::false_type;                        ///< Heaps differ.
    /// The allocator of other objects in the same heap.
    template <class U> struct rebind {
        using other = allocator<U, Allocator>; ///< It.
    };

    /// Of a heap.
    allocator(heap<Allocator>& heap) noexcept : heap_(heap.get()) {}
    /// Of a heap as rtalloc.h knows it.
    explicit allocator(typename Allocator::heap_type* heap) noexcept : heap_(heap) {}
    /// Of the same heap.
    template <class U> allocator(const allocator<U, Allocator>& other) noexcept : heap_(other.get()) {}

    /// Memory for `count` objects. Throws `bad_alloc`, and `std::bad_array_new_length` where no address space is that large.
    [[nodiscard]] T* allocate(std::size_t count) {
        const std::size_t bytes = detail::bytes_of<T>(count);
#if defined(__cpp_exceptions)
        if (bytes == std::numeric_limits<std::size_t>::max()) throw std::bad_array_new_length();
#endif
        void* block = nullptr;
        const rt_error why = Allocator::allocate(heap_, alignof(T), detail::at_least_one(bytes), &block);
        if (why != RT_OK) detail::refuse(why);
        return static_cast<T*>(block);
    }
#if defined(__cpp_lib_allocate_at_least)
    /// Memory for `count` objects, and as many more as the block has room for.
    [[nodiscard]] std::allocation_result<T*> allocate_at_least(std::size_t count) {
        T* block = allocate(count);
        return {block, Allocator::usable_size(heap_, block) / sizeof(T)};
    }
#endif
    /// Gives memory back.
    void deallocate(T* block, std::size_t) noexcept { Allocator::free(heap_, block); }

    /// The heap as rtalloc.h knows it.
    typename Allocator::heap_type* get() const noexcept { return heap_; }

  private:
    typename Allocator::heap_type* heap_;
};

/// Whether both are of one heap.
template <class T, class U, class Allocator>
bool operator==(const allocator<T, Allocator>& one, const allocator<U, Allocator>& other) noexcept {
    return one.get() == other.get();
}
/// Whether they are of different heaps.
template <class T, class U, class Allocator>
bool operator!=(const allocator<T, Allocator>& one, const allocator<U, Allocator>& other) noexcept {
    return !(one == other);
}

#if defined(__cpp_lib_memory_resource)

/// A heap as a `std::pmr::memory_resource`, for one thread at a time. It throws `bad_alloc` where a request is refused, one for an alignment
/// that the heap has not got among them; it asks nobody else for memory.
///
/// It is equal to itself alone: what one resource allocated, another of the same heap may deallocate, but they do not know that of
/// each other without run-time type information.
template <class Allocator> class memory_resource : public std::pmr::memory_resource {
  public:
    /// Of a heap, which outlives it.
    explicit memory_resource(heap<Allocator>& heap) noexcept : heap_(heap.get()) {}
    /// Of a heap that is made in `bytes` bytes at `region`. Throws `std::system_error`.
    memory_resource(void* region, std::size_t bytes, rt_heap_config config = {})
        : heap_(heap<Allocator>(region, bytes, config).get()) {}
    memory_resource(const memory_resource&) = delete;
    memory_resource& operator=(const memory_resource&) = delete;
    ~memory_resource() override = default;

    /// The heap as rtalloc.h knows it.
    typename Allocator::heap_type* get() const noexcept { return heap_; }

  protected:
    /// Allocates.
    void* do_allocate(std::size_t bytes, std::size_t align) override {
        void* block = nullptr;
        const rt_error why = Allocator::allocate(heap_, align, detail::at_least_one(bytes), &block);
        if (why != RT_OK) detail::refuse(why);
        return block;
    }
    /// Gives back.
    void do_deallocate(void* block, std::size_t, std::size_t) override { Allocator::free(heap_, block); }
    /// Whether it is the same.
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  private:
    typename Allocator::heap_type* heap_;
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

#endif // __cpp_lib_memory_resource

} // namespace rtalloc

/// An `rt_error` as a `std::error_code`; found by its argument.
inline std::error_code make_error_code(rt_error error) noexcept {
    return std::error_code(static_cast<int>(error), rtalloc::category());
}

/// An `rt_error` is an error code without being asked.
template <> struct std::is_error_code_enum<rt_error> : std::true_type {};

#endif // RTALLOC_HPP
