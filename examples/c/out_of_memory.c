// Does the program survive a refused request? It runs once for each of its requests, which is refused in that run.
//
//     cc -std=c11 out_of_memory.c -lrtalloc

#include <rtalloc.h>
#include <stdbool.h>
#include <stdio.h>

typedef struct node {
    struct node *next;
    char *name;
} node;

static unsigned char memory[64 * 1024];
static rt_failing_tlsf *heap;

static void drop(node *list) {
    while (list != NULL) {
        node *next = list->next;
        rt_failing_tlsf_free(heap, list->name);
        rt_failing_tlsf_free(heap, list);
        list = next;
    }
}

// The program under test: a list of ten nodes, or nothing at all.
static bool makes_a_list(void) {
    node *list = NULL;
    for (int number = 0; number < 10; ++number) {
        node *made = rt_failing_tlsf_calloc(heap, 1, sizeof *made);
        if (made != NULL) {
            made->next = list;
            list = made;
            made->name = rt_failing_tlsf_malloc(heap, 20);
        }
        if (made == NULL || made->name == NULL) {
            drop(list);
            return false;
        }
    }
    drop(list);
    return true;
}

int main(void) {
    heap = rt_failing_tlsf_init(memory, sizeof memory);
    if (heap == NULL) return 1;
    int survived = 0;
    for (size_t number = 1;; ++number) {
        const rt_failures plan = {.plan = RT_FAILURES_NTH, .number = number};
        if (rt_failing_tlsf_arm(heap, &plan) != RT_OK) return 1;
        const bool made = makes_a_list();
        rt_stats stats;
        rt_failing_tlsf_stats(heap, &stats);
        if (stats.live_blocks != 0) {
            printf("memory is lost when request %zu is refused\n", number);
            return 1;
        }
        if (made) break;
        ++survived;
    }
    printf("requests that were refused, one in each run: %d; nothing was lost\n", survived);
    return 0;
}
