// Expectations that report the place and the allocator of a failure.
#ifndef EXPECT_H
#define EXPECT_H

#include <stdio.h>
#include <stdlib.h>

// The allocator under test.
extern const char *subject;

// Ends the program with a message.
#define EXPECT(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s: expected %s\n", __FILE__, __LINE__, subject, #condition); \
            exit(1); \
        } \
    } while (0)

#endif
