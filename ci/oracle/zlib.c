/* Compresses and restores data of several kinds with every level and strategy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

int main(void) {
    static unsigned char data[6000], packed[9000], back[6000];
    unsigned long total = 0;
    unsigned r = 1;
    for (int kind = 0; kind < 3; kind++) {
        for (size_t i = 0; i < sizeof data; i++) { r = r * 1103515245 + 12345; data[i] = kind == 0 ? "the quick brown "[i % 16] : kind == 1 ? r >> 16 : r >> 28; }
        for (int level = 0; level < 10; level++)
            for (int strategy = 0; strategy < 5; strategy++) {
                z_stream s;
                memset(&s, 0, sizeof s);
                if (deflateInit2(&s, level, Z_DEFLATED, level % 2 ? 15 : 31, 8, strategy) != Z_OK) abort();
                s.next_in = data; s.avail_in = sizeof data; s.next_out = packed; s.avail_out = sizeof packed;
                if (level == 4) deflateTune(&s, 4, 5, 16, 8);
                if (deflate(&s, Z_FINISH) != Z_STREAM_END) abort();
                size_t size = s.total_out;
                deflateEnd(&s);
                memset(&s, 0, sizeof s);
                if (inflateInit2(&s, 47) != Z_OK) abort();
                s.next_in = packed; s.avail_in = size; s.next_out = back;
                int result = Z_OK;
                while (result == Z_OK) { s.avail_out = level == 3 ? 100 : sizeof back - s.total_out; result = inflate(&s, Z_SYNC_FLUSH); }
                if (result != Z_STREAM_END || memcmp(data, back, sizeof data)) abort();
                inflateEnd(&s);
                total += size + crc32(0, data, level * 17) + adler32(1, data, strategy * 700) + compressBound(size) + crc32_combine(1, 2, size);
            }
        uLongf size = sizeof packed, restored = sizeof back;
        total += compress(packed, &size, data, sizeof data) + uncompress(back, &restored, packed, size) + uncompress(back, &restored, packed + 1, size);
    }
    printf("%lu %s\n", total, zlibVersion());
    return 0;
}
