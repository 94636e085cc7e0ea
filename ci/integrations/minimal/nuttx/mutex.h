// What integrations/nuttx/ needs of NuttX's header of this name. A mutex is a flag that shows misuse of itself.

#ifndef NUTTX_MUTEX_H
#define NUTTX_MUTEX_H

#include <stdlib.h>

typedef struct { int is_locked; } mutex_t;

static inline int nxmutex_init(mutex_t *mutex) { return mutex->is_locked = 0; }
static inline int nxmutex_destroy(mutex_t *mutex) { return mutex->is_locked; }
static inline int nxmutex_lock(mutex_t *mutex) { if (mutex->is_locked++) abort(); return 0; }
static inline int nxmutex_unlock(mutex_t *mutex) { if (--mutex->is_locked) abort(); return 0; }

#endif
