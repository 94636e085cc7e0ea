// Containers of the standard library in every kind of heap, with the allocator of rtalloc.hpp.

#include "expect.hpp"

#include <algorithm>
#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <scoped_allocator>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

template <class T, class A> using vector_in = std::vector<T, rtalloc::allocator<T, A>>;
template <class A> using string_in = std::basic_string<char, std::char_traits<char>, rtalloc::allocator<char, A>>;
template <class K, class V, class A>
using map_in = std::map<K, V, std::less<K>, rtalloc::allocator<std::pair<const K, V>, A>>;
template <class K, class V, class A>
using hash_map_in =
    std::unordered_map<K, V, std::hash<K>, std::equal_to<K>, rtalloc::allocator<std::pair<const K, V>, A>>;

alignas(64) static std::byte memory[256 << 10];

/// Node-based containers, whose requests are small enough for every heap.
template <class A> void nodes() {
    rtalloc::heap<A> heap(memory, std::min(sizeof memory, A::contract().max_span_bytes));
    {
        std::list<int, rtalloc::allocator<int, A>> list(heap);
        map_in<int, string_in<A>, A> map(heap);
        std::set<int, std::less<int>, rtalloc::allocator<int, A>> set(heap);
        std::forward_list<int, rtalloc::allocator<int, A>> forward(heap);
        for (int number = 0; number < 100; ++number) {
            list.push_back(number);
            forward.push_front(number);
            set.insert(number * 7 % 101);
            map.emplace(number, string_in<A>(40, static_cast<char>('a' + number % 26), heap));
        }
        EXPECT(live_blocks(heap) >= 500);
        list.remove_if([](int number) { return number % 2 == 1; });
        EXPECT(std::accumulate(list.begin(), list.end(), 0) == 2450);
        EXPECT(std::accumulate(forward.begin(), forward.end(), 0) == 4950);
        EXPECT(set.size() == 100);
        EXPECT(std::all_of(map.begin(), map.end(), [](const auto& entry) {
            return entry.second.size() == 40 && entry.second[39] == 'a' + entry.first % 26;
        }));
        EXPECT(!heap.check());
    }
    EXPECT(live_blocks(heap) == 0);
    const rt_contract& contract = heap.contract();
    EXPECT(contract.name != nullptr && contract.granule_bytes != 0);
    EXPECT(heap.try_allocate(contract.largest_request_bytes == SIZE_MAX ? sizeof memory
                                                                        : contract.largest_request_bytes + 1)
               .error() == RT_ERROR_TOO_LARGE);
    EXPECT(heap.stats().failures == (std::string(A::name) == "tlsf_no_stats" ? 0u : 1u));
}

/// Containers with growing requests.
template <class A> void arrays() {
    rtalloc::heap<A> heap(memory);
    {
        vector_in<int, A> numbers(heap);
        std::deque<double, rtalloc::allocator<double, A>> deque(heap);
        hash_map_in<int, int, A> squares(heap);
        for (int number = 0; number < 2000; ++number) {
            numbers.push_back(number);
            deque.push_front(number);
            squares[number] = number * number;
        }
        EXPECT(std::accumulate(numbers.begin(), numbers.end(), 0) == 1999000);
        EXPECT(deque.front() == 1999 && deque.back() == 0);
        EXPECT(squares.at(40) == 1600);
        numbers.shrink_to_fit();
        EXPECT(numbers.back() == 1999);
        // A nested container, both in the heap.
        vector_in<vector_in<int, A>, A> rows(heap);
        for (int row = 0; row < 10; ++row) rows.emplace_back(100, row, heap);
        EXPECT(rows[9][99] == 9);
        EXPECT(!heap.check());
    }
    EXPECT(live_blocks(heap) == 0);
}

/// Containers that pass their allocator to their elements.
void nested() {
    using text = string_in<rtalloc::tlsf>;
    rtalloc::heap<rtalloc::tlsf> heap(memory);
    {
        using scoped = std::scoped_allocator_adaptor<rtalloc::allocator<text, rtalloc::tlsf>>;
        std::vector<text, scoped> words{scoped(rtalloc::allocator<text, rtalloc::tlsf>(heap))};
        words.emplace_back("a string that is too long to be inside the object");
        words.resize(10);
        words[9].assign(100, 'x');
        EXPECT(words[0].get_allocator() == words.get_allocator() && words[9].get_allocator() == words.get_allocator());
        EXPECT(live_blocks(heap) == 3);
    }
    EXPECT(live_blocks(heap) == 0);
}

/// The propagation of the allocator when a container is copied, moved and swapped.
void allocators_go_along() {
    using A = rtalloc::tlsf;
    alignas(64) static std::byte other_memory[64 << 10];
    rtalloc::heap<A> one(memory);
    rtalloc::heap<A> other(other_memory);
    rtalloc::allocator<int, A> of_one(one);
    rtalloc::allocator<long, A> also_of_one(of_one);
    EXPECT(of_one == also_of_one && of_one != (rtalloc::allocator<int, A>(other)));
    using traits = std::allocator_traits<rtalloc::allocator<int, A>>;
    static_assert(std::is_same_v<traits::rebind_alloc<char>, rtalloc::allocator<char, A>>);
    static_assert(traits::propagate_on_container_move_assignment::value && !traits::is_always_equal::value);
    static_assert(std::is_nothrow_copy_constructible_v<rtalloc::allocator<int, A>>);

    vector_in<int, A> numbers(1000, 7, one);
    vector_in<int, A> copy(numbers);
    EXPECT(copy.get_allocator() == of_one);
    vector_in<int, A> elsewhere(numbers, other);
    EXPECT(elsewhere.get_allocator() != of_one && elsewhere == numbers);
    const int* place = numbers.data();
    elsewhere = std::move(numbers);
    EXPECT(elsewhere.data() == place && elsewhere.get_allocator() == of_one);
    EXPECT(live_blocks(other) == 0);
    vector_in<int, A> in_other(10, 1, other);
    swap(in_other, copy);
    EXPECT(copy.size() == 10 && in_other.size() == 1000);
    in_other = copy;
    EXPECT(in_other.get_allocator() == copy.get_allocator() && live_blocks(one) == 1);
}

/// `shared_ptr` with its counter in one block; `unique_ptr` in a heap.
void pointers() {
    struct counted {
        explicit counted(int& those) : all(those) { ++all; }
        ~counted() { --all; }
        counted(const counted&) = delete;
        counted& operator=(const counted&) = delete;
        int& all;
        int values[100] = {};
    };
    rtalloc::heap<rtalloc::tlsf> heap(memory);
    int alive = 0;
    {
        auto shared = std::allocate_shared<counted>(rtalloc::allocator<counted, rtalloc::tlsf>(heap), alive);
        std::weak_ptr<counted> weak = shared;
        auto again = shared;
        EXPECT(alive == 1 && live_blocks(heap) == 1);
        shared.reset();
        again.reset();
        EXPECT(alive == 0 && weak.expired());
        auto unique = heap.make_unique<counted>(alive);
        EXPECT(alive == 1);
        auto moved = std::move(unique);
        EXPECT(moved->values[99] == 0);
    }
    EXPECT(alive == 0 && live_blocks(heap) == 0);

    struct angry {
        angry() { throw 7; }
    };
    EXPECT_THROW(heap.make_unique<angry>(), int);
    EXPECT_THROW(heap.try_make_unique<angry>(), int);
    EXPECT(live_blocks(heap) == 0);
    EXPECT_THROW((heap.make_unique<std::array<char, 1 << 20>>()), std::bad_alloc);
    EXPECT((heap.try_make_unique<std::array<char, 1 << 20>>()) == nullptr);
}

/// A container in a full heap throws, keeps its content, and works again when there is room.
void exhaustion() {
    rtalloc::heap<rtalloc::tlsf> heap(memory, 16 << 10);
    vector_in<int, rtalloc::tlsf> numbers(heap);
    EXPECT_THROW(
        [&] {
            for (int number = 0;; ++number) numbers.push_back(number);
        }(),
        std::bad_alloc);
    EXPECT(numbers.size() >= 1024);
    for (std::size_t index = 0; index < numbers.size(); ++index) EXPECT(numbers[index] == static_cast<int>(index));
    EXPECT_THROW(numbers.reserve(numbers.max_size()), std::bad_alloc);
    EXPECT_THROW((rtalloc::allocator<long, rtalloc::tlsf>(heap).allocate(SIZE_MAX / 4)), std::bad_array_new_length);
    numbers.resize(100);
    numbers.shrink_to_fit();
    numbers.resize(1000);
    EXPECT(numbers[99] == 99 && numbers[999] == 0);
    EXPECT(!heap.check());
}

/// Types with extended alignment.
template <class A, std::size_t Align> void over_aligned() {
    struct alignas(Align) wide {
        int value;
    };
    rtalloc::heap<A> heap(memory);
    vector_in<wide, A> array(heap);
    std::list<wide, rtalloc::allocator<wide, A>> list(heap);
    for (int number = 0; number < 20; ++number) {
        array.push_back({number});
        list.push_back({number});
    }
    const auto aligned = [](const wide& value) { return reinterpret_cast<std::uintptr_t>(&value) % Align == 0; };
    EXPECT(std::all_of(array.begin(), array.end(), aligned) && std::all_of(list.begin(), list.end(), aligned));
    auto one = heap.template make_unique<wide>();
    EXPECT(aligned(*one));
}

int main() {
#define NODES(X) nodes<rtalloc::X>();
    RTALLOC_ALLOCATORS(NODES, NODES)
    arrays<rtalloc::tlsf>();
    arrays<rtalloc::tlsf_no_stats>();
    arrays<rtalloc::tlsf_exact>();
    arrays<rtalloc::tlsf_full_validation>();
    arrays<rtalloc::half_fit>();
    arrays<rtalloc::first_fit>();
    arrays<rtalloc::first_fit_address>();
    arrays<rtalloc::next_fit>();
    arrays<rtalloc::best_fit>();
    arrays<rtalloc::tree_best_fit>();
    arrays<rtalloc::fast_fit>();
    arrays<rtalloc::quick_fit>();
    arrays<rtalloc::binary_buddy>();
    arrays<rtalloc::fibonacci_buddy>();
    nested();
    allocators_go_along();
    pointers();
    exhaustion();
    over_aligned<rtalloc::tlsf, 64>();
    over_aligned<rtalloc::half_fit, 256>();
    over_aligned<rtalloc::binary_buddy, 128>();
    std::puts("containers: as they should be");
}
