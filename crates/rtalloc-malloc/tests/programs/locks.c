// A process forks while other threads allocate and own locks that the fork waits for. With LIBRARY this is a library
// whose constructor registers fork handlers; it is preloaded after the library under test.
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>

void use(void);

#ifdef LIBRARY

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void take(void) { pthread_mutex_lock(&lock); }
static void give(void) { pthread_mutex_unlock(&lock); }
__attribute__((constructor)) static void loaded(void) { CHECK(!pthread_atfork(take, give, give)); }

void use(void) {
    take();
    for (int i = 0; i < 20; i++) free(seen(malloc(100)));
    give();
}

#else

#pragma weak use

static void *uses(void *unused) {
    for (;;) use();
    return unused;
}

// Waits for every stream in turn while the C library's list of streams is locked.
static void *flushes(void *unused) {
    for (;;) fflush(NULL);
    return unused;
}

// Allocates while a stream is locked.
static void *reads(void *unused) {
    FILE *stream = tmpfile();
    CHECK(stream);
    for (int i = 0; i < 50; i++) fprintf(stream, "%0*d\n", i * 40 + 1, i);
    for (;;) {
        rewind(stream);
        char *line = NULL;
        size_t bytes = 0;
        while (getline(&line, &bytes, stream) > 0) { free(line); line = NULL; bytes = 0; }
        free(line);
    }
    return unused;
}

int main(int count, char **words) {
    CHECK(count == 2);
    end_if_blocked();
    pthread_t thread;
    if (!strcmp(words[1], "library")) {
        CHECK(use);
        for (int i = 0; i < 2; i++) CHECK(!pthread_create(&thread, NULL, uses, NULL));
    } else {
        for (int i = 0; i < 2; i++) CHECK(!pthread_create(&thread, NULL, flushes, NULL) && !pthread_create(&thread, NULL, reads, NULL));
    }
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child) {
            end_if_blocked();
            if (use) use();
            FILE *stream = tmpfile();
            CHECK(stream && fputs("a line", stream) >= 0 && !fflush(NULL) && !fclose(stream));
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    puts("passed");
    fflush(stdout);
    _exit(0);
}

#endif
