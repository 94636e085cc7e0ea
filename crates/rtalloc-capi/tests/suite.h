// The parts of the suite, each for all heaps of a kind. A failed expectation ends the program.
#ifndef SUITE_H
#define SUITE_H

void test_region_allocators(void);
void test_handle_allocators(void);
void test_shared_allocators(void);
void test_shared_compact_fit(void);
void test_errors(void);
void test_debug_heaps(void);

#endif
