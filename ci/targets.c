// Random requests and frees of several allocators, for ci/targets.py. RUNS is a list of RUN(NAME); EXIT ends the
// program.
typedef unsigned long word;
typedef unsigned char byte;

static byte region[1 << 20] __attribute__((aligned(64)));
static void *live[256];
static unsigned state = 12345;

// Marsaglia's xorshift.
static unsigned random(void) {
    state ^= state << 13;
    state ^= state >> 17;
    return state ^= state << 5;
}

// Half of the sizes are small; the largest have 8 KiB.
static word size(void) {
    unsigned bits = random();
    return 1 + (bits >> 8) % (1u << (4 + (bits & 7) + (bits >> 3 & 3)));
}

#define RUN(name)                                                                    \
    {                                                                                \
        void *name##_new(void *, word), *name##_allocate(void *, word);              \
        void name##_deallocate(void *, void *);                                      \
        void *heap = 0;                                                              \
        /* Some heaps reach only 65,535 bytes. */                                    \
        for (word bytes = sizeof region; !heap && bytes > 4096; bytes = bytes / 2 - 1) \
            heap = name##_new(region, bytes);                                        \
        for (int i = 0; i < 256; i++)                                                \
            live[i] = 0;                                                             \
        for (int i = 0; heap && i < 6000; i++) {                                     \
            void **place = &live[random() & 255];                                    \
            if (*place)                                                              \
                name##_deallocate(heap, *place), *place = 0;                         \
            else                                                                     \
                *place = name##_allocate(heap, size());                              \
        }                                                                            \
    }

void *memset(void *to, int value, word bytes) {
    for (byte *at = to; bytes--;)
        *at++ = (byte)value;
    return to;
}

void *memmove(void *to, const void *from, word bytes) {
    byte *at = to;
    const byte *of = from;
    if (at < of)
        while (bytes--)
            *at++ = *of++;
    else
        while (bytes--)
            at[bytes] = of[bytes];
    return to;
}

void *memcpy(void *to, const void *from, word bytes) {
    return memmove(to, from, bytes);
}

void start(void) {
    RUNS
    EXIT
}
