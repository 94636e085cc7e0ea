/* Calls the functions of libm with arguments of every kind. */
#define _GNU_SOURCE
#include <complex.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static uint64_t state = 0x9e3779b97f4a7c15u;
static volatile double sink;
static uint64_t next(void) { state ^= state << 13; state ^= state >> 7; state ^= state << 17; return state; }

/* Mostly moderate values; else any bits, or a special value. */
static double argument(void) {
    static const double special[] = { 0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-310, -1e308, 1e22, INFINITY, -INFINITY, NAN, 3.141592653589793, 0x1p-1022, 0x1p52 };
    uint64_t r = next();
    double any;
    switch (r & 7) {
    case 0: return special[(r >> 8) % 15];
    case 1: r = next(); memcpy(&any, &r, 8); return any;
    case 2: return (double)(int64_t)(r >> 11) * 0x1p-20 - 0x1p31;
    case 3: return (double)(r >> 40) * 0x1p-60;
    default: return (double)(r >> 11) * 0x1p-49 - 8.0;
    }
}

#define ONE(g) sink += g(x); sink += g##f((float)x); sink += (double)g##l((long double)x);
#define TWO(g) sink += g(x, y); sink += g##f((float)x, (float)y); sink += (double)g##l((long double)x, (long double)y);
#define WHOLE(g) sink += (double)g(x); sink += (double)g##f((float)x); sink += (double)g##l((long double)x);
#define COMPLEX(g) sink += creal(g(z)); sink += creal(g##f((float complex)z));

int main(void) {
    for (int turn = 0; turn < 300; turn++) {
        double x = argument(), y = argument(), w = argument(), part;
        float part_f;
        int n = (int)(next() % 60) - 20;
        double complex z = x + y * I;
        ONE(sin) ONE(cos) ONE(tan) ONE(asin) ONE(acos) ONE(atan) ONE(sinh) ONE(cosh) ONE(tanh) ONE(asinh) ONE(acosh) ONE(atanh)
        ONE(exp) ONE(exp2) ONE(expm1) ONE(log) ONE(log2) ONE(log10) ONE(log1p) ONE(logb) ONE(sqrt) ONE(cbrt) ONE(erf) ONE(erfc)
        ONE(lgamma) ONE(tgamma) ONE(floor) ONE(ceil) ONE(trunc) ONE(round) ONE(rint) ONE(nearbyint) ONE(fabs) ONE(j0) ONE(j1) ONE(y0) ONE(y1)
        TWO(pow) TWO(atan2) TWO(hypot) TWO(fmod) TWO(remainder) TWO(fmax) TWO(fmin) TWO(fdim) TWO(copysign) TWO(nextafter)
        WHOLE(lrint) WHOLE(llrint) WHOLE(lround) WHOLE(llround) WHOLE(ilogb)
        sink += fma(x, y, w) + fmaf((float)x, (float)y, (float)w) + (double)fmal(x, y, w);
        sink += ldexp(x, n) + frexp(x, &n) + scalbn(x, n) + modf(x, &part) + modff((float)x, &part_f) + remquo(x, y, &n) + jn(n & 7, x) + yn(n & 7, x);
        sincos(x, &part, &y);
        sink += part + y + nexttoward(x, w) + significand(x) + (isnan(x) ? 1 : 0) + fpclassify(y) + (double)finite(w);
        COMPLEX(csin) COMPLEX(ccos) COMPLEX(ctan) COMPLEX(cexp) COMPLEX(clog) COMPLEX(csqrt) COMPLEX(catan) COMPLEX(casin) COMPLEX(cacosh) COMPLEX(csinh) COMPLEX(ctanh)
        sink += cabs(z) + carg(z) + creal(cpow(z, y)) + creal(cproj(z));
    }
    printf("%g\n", sink);
    return 0;
}
