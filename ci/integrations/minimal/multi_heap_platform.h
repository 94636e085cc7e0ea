// What integrations/esp-idf/ needs of ESP-IDF's header of this name. A lock is a count.

#ifndef MULTI_HEAP_PLATFORM_H
#define MULTI_HEAP_PLATFORM_H

#define MULTI_HEAP_LOCK(lock) ((void)((lock) == NULL ? 0 : ++*(int *)(lock)))
#define MULTI_HEAP_UNLOCK(lock) ((void)((lock) == NULL ? 0 : --*(int *)(lock)))

#define MULTI_HEAP_PRINTF printf
#define MULTI_HEAP_STDERR_PRINTF(...) fprintf(stderr, __VA_ARGS__)

#endif
