// Expectations that say where they were not met, and of which allocator.
#ifndef EXPECT_H
#define EXPECT_H

#include <stdio.h>
#include <stdlib.h>

// The allocator that is tested.
extern const char *subject;

// Ends the program with the words of what was expected.
#define EXPECT(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s: expected %s\n", __FILE__, __LINE__, subject, #condition); \
            exit(1); \
        } \
    } while (0)

#endif
