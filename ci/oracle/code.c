/* Functions of many shapes: branches, switches, loops, calls, tail calls, rarely executed parts. Each is called many times
   with pseudo-random arguments. No function is inlined, so each is an entry of its own. */
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define F __attribute__((noinline)) static
#define KEEP __attribute__((noinline, used))

static uint64_t state = 88172645463325252u;
static volatile uint64_t sink;
static volatile int zero;

F uint64_t next(void) { state ^= state << 13; state ^= state >> 7; state ^= state << 17; return state; }

F int max3(int a, int b, int c) { int m = a > b ? a : b; return m > c ? m : c; }
F int clamp(int x, int low, int high) { if (x < low) return low; if (x > high) return high; return x; }
F int sign(int x) { return (x > 0) - (x < 0); }
F unsigned parity(unsigned x) { x ^= x >> 16; x ^= x >> 8; x ^= x >> 4; return 0x6996u >> (x & 15) & 1; }
F unsigned bits(unsigned x) { unsigned n = 0; while (x) { x &= x - 1; n++; } return n; }
F unsigned highest(uint64_t x) { return x ? 63 - __builtin_clzll(x) : 64; }
F uint64_t reversed(uint64_t x) { uint64_t r = 0; for (int i = 0; i < 64; i++, x >>= 1) r = r << 1 | (x & 1); return r; }
F int leap(int y) { return (y % 4 == 0 && y % 100 != 0) || y % 400 == 0; }
F int days(int y, int m) {
    switch (m) {
    case 2: return 28 + leap(y);
    case 4: case 6: case 9: case 11: return 30;
    default: return 31;
    }
}
F int dense(int k, int x) {
    switch (k) {
    case 0: return x + 1; case 1: return x * 3; case 2: return x - 7; case 3: return x << 2; case 4: return x ^ 21;
    case 5: return ~x; case 6: return x / 3; case 7: return x % 5; case 8: return x | 8; case 9: return -x;
    default: return 0;
    }
}
F int sparse(int k) {
    switch (k) { case 1: return 5; case 100: return 7; case 10000: return 11; case 1000000: return 13; default: return k & 3; }
}
F int nested_if(int a, int b, int c, int d) {
    if (a > 0) {
        if (b > 0) { if (c > 0) return a + b + c; else if (d > 0) return a * b - c; return d; }
        if (c < d) return c * d;
        return a - d;
    } else if (b & 1) {
        return c ^ d;
    }
    return a + b + c + d;
}
F int short_circuit(int a, int b, int c) { return (a > b && b > c) || (a < 10 && (c & 1 || b == 3)) ? a : c; }
F uint64_t mix(uint64_t x) { x ^= x >> 33; x *= 0xff51afd7ed558ccdu; x ^= x >> 33; x *= 0xc4ceb9fe1a85ec53u; return x ^ x >> 33; }
F uint32_t gcd(uint32_t a, uint32_t b) { while (b) { uint32_t t = a % b; a = b; b = t; } return a; }
F int sum(const int *p, int n) { int s = 0; for (int i = 0; i < n; i++) s += p[i]; return s; }
F int sum_odd(const int *p, int n) { int s = 0; for (int i = 0; i < n; i++) if (p[i] & 1) s += p[i]; else s ^= i; return s; }
F int find(const int *p, int n, int x) { for (int i = 0; i < n; i++) if (p[i] == x) return i; return -1; }
F int bisect(const int *p, int n, int x) {
    int low = 0, high = n;
    while (low < high) { int mid = (low + high) / 2; if (p[mid] < x) low = mid + 1; else high = mid; }
    return low;
}
F void insertion(int *p, int n) {
    for (int i = 1; i < n; i++) { int x = p[i], j = i; while (j > 0 && p[j - 1] > x) { p[j] = p[j - 1]; j--; } p[j] = x; }
}
F void multiply(double *c, const double *a, const double *b, int n) {
    for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) { double s = 0; for (int k = 0; k < n; k++) s += a[i * n + k] * b[k * n + j]; c[i * n + j] = s; }
}
F int triangle(int n) { int s = 0; for (int i = 0; i < n; i++) for (int j = 0; j <= i; j++) { if ((i ^ j) & 4) continue; if (s > 900) break; s += j; } return s; }
F int twice(int n, int m) { int s = 0; for (int i = 0; i < n; i++) s += i & 3; for (int j = 0; j < m; j++) s ^= j; do s += 2; while (s & 6); return s; }
F int goes(int n) {
    int s = 0;
again:
    s += n & 7;
    if (s & 8) { n -= 3; s ^= 5; }
    if (--n > 0) goto again;
    return s;
}
F int middle(int n, int into) {
    int s = 0;
    if (into & 1) goto inside;
    while (n > 0) { s += n; inside: n--; if (s & 16) s -= 3; }
    return s;
}
F uint32_t crc(const unsigned char *p, size_t n) {
    uint32_t c = ~0u;
    while (n--) { c ^= *p++; for (int k = 0; k < 8; k++) c = c >> 1 ^ (0xedb88320u & -(c & 1)); }
    return ~c;
}
F size_t length(const char *s) { const char *p = s; while (*p) p++; return p - s; }
F int compare(const char *a, const char *b) { while (*a && *a == *b) { a++; b++; } return (unsigned char)*a - (unsigned char)*b; }
F int number(const char *s) { int v = 0, minus = *s == '-'; for (s += minus; *s >= '0' && *s <= '9'; s++) v = v * 10 + (*s - '0'); return minus ? -v : v; }
F int tokens(const char *s) { int n = 0, in = 0; for (; *s; s++) { int space = *s == ' ' || *s == '\t'; if (!space && !in) n++; in = !space; } return n; }

struct node { struct node *left, *right; int key; };
F struct node *lookup(struct node *n, int key) { while (n && n->key != key) n = key < n->key ? n->left : n->right; return n; }
F int depth(const struct node *n) { if (!n) return 0; int l = depth(n->left), r = depth(n->right); return 1 + (l > r ? l : r); }
F void insert(struct node **at, struct node *new) { while (*at) at = new->key < (*at)->key ? &(*at)->left : &(*at)->right; *at = new; }

KEEP int leaf(int x) { return x * 5 + 1; }
KEEP int tail(int x) { return x & 1 ? leaf(x + 1) : sign(x); }
KEEP int tail_chain(int x) { if (x > 50) return tail(x - 50); return clamp(x, 3, 40); }
KEEP int calls(int x) { return leaf(x) + leaf(x + 1) * tail(x) - max3(x, 3, tail_chain(x)); }
KEEP int calls_in_loop(int n) { int s = 0; for (int i = 0; i < n; i++) s += i & 1 ? calls(i) : leaf(s); return s; }
KEEP int loops_in_calls(const int *p, int n) { return sum(p, n) + sum_odd(p, n / 2) + find(p, n, 7); }
KEEP int even(unsigned n);
KEEP int odd(unsigned n) { return n == 0 ? 0 : even(n - 1); }
KEEP int even(unsigned n) { return n == 0 ? 1 : odd(n - 1); }
static int (*const constant_pointers[])(int) = { leaf, tail, sign };
static int (*volatile variable_pointer)(int) = leaf;
KEEP int through_constant(int k, int x) { return constant_pointers[k % 3](x); }
KEEP int through_variable(int x) { return variable_pointer(x) + 1; }
__attribute__((noinline, cold)) static int rare(int x) { return printf("%d", x) + x; }
KEEP int mostly(int x) { if (__builtin_expect(x == 12345, 0)) return rare(x); return x * 2 + 1; }
KEEP int checked(int x) { if (x == 987654321) abort(); if (x == 123456789) exit(3); return x + 4; }
KEEP int seldom_loop(int x) { if (__builtin_expect((x & 0xff) == 3, 0)) { int s = 0; for (int i = 0; i < (x & 31); i++) s += leaf(i + s); return s; } return x + 9; }
KEEP void copy(char *to, const char *from, size_t n) { while (n--) *to++ = *from++; }
KEEP struct node by_value(struct node n) { n.key += 3; return n; }
KEEP __int128 wide(__int128 a, __int128 b) { return b ? a / b + a % b : a * b; }
KEEP double real(double x) { return x < 0 ? -x : x > 1 ? 1 / x : x * x; }
KEEP int on_stack(int n) { char room[n % 100 + 1]; memset(room, n, sizeof room); return room[n % (int)sizeof room] + (int)sizeof room; }
KEEP int computed(int k) {
    static void *const labels[] = { &&a, &&b, &&c };
    goto *labels[(unsigned)k % 3];
a:  return 4;
b:  k += 9;
c:  return k;
}
static jmp_buf jump;
KEEP void jumps(int x) { if (x & 1) longjmp(jump, x); }
KEEP int sets(int x) { if (setjmp(jump)) { int s = 0; for (int i = 0; i < 300; i++) s += i ^ x; return s; } jumps(x); return x + 1; }
/* Functions that return, with names of functions known never to return. */
KEEP int quick_exit_code(int x) { return x + 2; }
KEEP void __assert(const char *what, const char *file, int line) { sink += line + (what == file); if (variable_pointer) variable_pointer(line); }
KEEP int asserts(int x) { if (x & 1) __assert("x", "y", x); return x + 3; }

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 60;
    int numbers[64], sorted[64];
    double a[64], b[64], c[64];
    char text[96];
    for (int round = 0; round < rounds; round++) {
        uint64_t r = next();
        int x = (int)(r >> 40) % 200 - 60, y = (int)(r >> 20) % 70 - 20, z = (int)(r & 63), n = (int)(next() % 20);
        for (int i = 0; i < 64; i++) { numbers[i] = (int)(next() % 100); sorted[i] = i * 3; a[i] = x + i; b[i] = y - i; }
        for (int i = 0; i < 95; i++) text[i] = "ab 0\t19-z"[next() % 9];
        text[n + z] = 0;
        struct node nodes[16], *root = NULL;
        for (int i = 0; i < 16; i++) { nodes[i] = (struct node){ NULL, NULL, (int)(next() % 50) }; insert(&root, &nodes[i]); }
        sink += max3(x, y, z) + clamp(x, 0, 50) + sign(x) + parity(r) + bits(r & 0xffff) + highest(r >> (z & 63)) + highest(0);
        sink += reversed(r) + leap(1900 + z) + days(2000 + z, n % 13) + dense(n % 12, x) + sparse(x) + sparse(10000) + sparse(1000000);
        sink += nested_if(x, y, z, n) + nested_if(-x, y, z, n) + short_circuit(x, y, z) + mix(r) + gcd(r & 0xffff, n) + gcd(144, z);
        sink += sum(numbers, n) + sum_odd(numbers, n) + find(numbers, 64, x) + bisect(sorted, 64, x) + triangle(n) + twice(n, z) + goes(n);
        sink += middle(n, z) + crc((unsigned char *)text, n) + length(text) + compare(text, "ab 0") + number(text) + number("-4711") + tokens(text);
        sink += (lookup(root, x) != NULL) + depth(root) + leaf(x) + tail(x) + tail_chain(x) + calls(y) + calls_in_loop(n) + loops_in_calls(numbers, n);
        sink += odd(n) + through_constant(n, x) + through_variable(x) + mostly(x) + checked(x) + seldom_loop(x) + seldom_loop(3 + 256 * z);
        sink += by_value(nodes[n % 16]).key + (uint64_t)wide((__int128)r * x, y) + (uint64_t)(real(x / 40.0) * 100) + on_stack(z) + computed(n);
        sink += sets(x) + quick_exit_code(x) + asserts(n);
        if (round % 20 == 7) sink += mostly(12345);
        copy(text + 48, text, n);
        insertion(numbers, n);
        multiply(c, a, b, n % 7);
        sink += (uint64_t)c[0] + numbers[0];
    }
    printf("%llu\n", (unsigned long long)sink);
    return 0;
}
