// The suite of the C library: tests every heap from C.

#include "expect.h"
#include "suite.h"

#include <rtalloc.h>
#include <string.h>

const char *subject = "the library";

void test_errors(void) {
    subject = "errors";
    for (int one = RT_OK; one <= RT_ERROR_NOT_IN_PLACE; one++) {
        const char *words = rt_strerror((rt_error) one);
        EXPECT(words != NULL && strlen(words) >= 4);
        for (int other = RT_OK; other < one; other++) EXPECT(strcmp(words, rt_strerror((rt_error) other)) != 0);
    }
    const char *none = rt_strerror((rt_error) (RT_ERROR_NOT_IN_PLACE + 1));
    EXPECT(strcmp(none, "not an error of rtalloc") == 0);
    EXPECT(strcmp(rt_strerror((rt_error) 200), none) == 0);
    EXPECT(rt_version() == RT_VERSION_MAJOR * 10000 + RT_VERSION_MINOR * 100 + RT_VERSION_PATCH);
    printf("%d errors\n", RT_ERROR_NOT_IN_PLACE);
}

int main(void) {
    test_errors();
    test_region_allocators();
    test_debug_heaps();
    test_handle_allocators();
    test_shared_allocators();
    test_shared_compact_fit();
    return 0;
}
