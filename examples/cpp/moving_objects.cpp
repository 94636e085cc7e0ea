// Objects that move, owned by handles: memory depends on the live objects, not on history.
//
//     c++ -std=c++17 moving_objects.cpp -lrtalloc

#include <rtalloc.hpp>

#include <cstdio>
#include <vector>

struct particle {
    int number;
    float place[3];
};

alignas(std::max_align_t) static std::byte memory[256 << 10];

int main() {
    rtalloc::objects<> heap(memory);
    std::vector<rtalloc::object<rtalloc::compact_fit>> particles;
    for (int number = 0; number < 300; ++number) {
        particles.push_back(heap.allocate(sizeof(particle)));
        *particles.back().as<particle>() = {number, {0, 0, 0}};
    }
    // Two of three are freed: others move into the gaps.
    for (std::size_t index = 0; index < particles.size(); ++index) {
        if (index % 3 != 0) particles[index].reset();
    }
    int unharmed = 0;
    for (std::size_t index = 0; index < particles.size(); index += 3) {
        unharmed += particles[index].as<particle>()->number == static_cast<int>(index) ? 1 : 0;
    }
    std::printf("unharmed: %d, alive: %zu\n", unharmed, heap.stats().live_blocks);

    // A handle is a number that can be stored anywhere; a stale one is an error.
    const rt_handle handle = particles[0].release();
    heap.adopt(handle).reset();
    const std::error_code why = heap.adopt(handle).reset();
    std::printf("an old handle: %s\n", why.message().c_str());
}
