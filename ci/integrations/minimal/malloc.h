// What integrations/nuttx/ needs of NuttX's header of this name.

#ifndef MALLOC_H
#define MALLOC_H

struct mallinfo {
    int arena, ordblks, aordblks, mxordblk, uordblks, fordblks;
};

#endif
