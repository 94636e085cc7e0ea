/* Calls functions of the C library with arguments of every kind. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fenv.h>
#include <fnmatch.h>
#include <getopt.h>
#include <glob.h>
#include <inttypes.h>
#include <langinfo.h>
#include <libgen.h>
#include <locale.h>
#include <regex.h>
#include <search.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

static uint64_t state = 0x2545f4914f6cdd1du;
static volatile uint64_t sink;
static uint64_t next(void) { state ^= state << 13; state ^= state >> 7; state ^= state << 17; return state; }
static int by_value(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static void nothing(const void *node, VISIT order, int depth) { sink += order + depth + (node != NULL); }

int main(void) {
    setlocale(LC_ALL, "C.UTF-8");
    char one[300], two[300], three[600];
    wchar_t wide[200];
    for (int round = 0; round < 60; round++) {
        size_t n = next() % 120, m = next() % 40;
        for (size_t i = 0; i < 299; i++) { one[i] = "abcxyz 019-./,%\t"[next() & 15]; two[i] = next() % 10 ? one[i] : 'q'; }
        one[n] = two[(n + m) % 299] = one[299] = two[299] = 0;
        int c = (int)(next() % 256), numbers[50];
        for (int i = 0; i < 50; i++) numbers[i] = (int)(next() % 100);
        sink += strlen(one) + strnlen(two, m) + strcmp(one, two) + strncmp(one, two, m) + strcasecmp(one, two) + strncasecmp(one, two, m);
        sink += memcmp(one, two, n) + (memchr(one, c, n) != NULL) + (memrchr(one, c, n) != NULL) + (strchr(one, 'x') != NULL) + (strrchr(one, 'y') != NULL);
        sink += strspn(one, "abc") + strcspn(one, "019") + (strpbrk(one, "-.") != NULL) + (strstr(one, "ab") != NULL) + (memmem(one, n, "yz", 2) != NULL);
        sink += (strcasestr(one, "XY") != NULL) + strcoll(one, two) + strxfrm(three, one, 500) + strverscmp(one, two);
        strcpy(three, one); strncpy(three, two, m + 1); three[m] = 0; strcat(three, "tail"); strncat(three, one, m);
        memcpy(three, one, n); memmove(three + 3, three, n); memset(three, c, m); stpcpy(three, one); memccpy(three, two, c, n); mempcpy(three, one, m);
        memfrob(three, m); memfrob(three, m); strfry(three);
        char *rest = three, *token;
        strcpy(three, one);
        while ((token = strsep(&rest, " ,"))) sink += *token;
        strcpy(three, one);
        for (token = strtok_r(three, ".-", &rest); token; token = strtok_r(NULL, ".-", &rest)) sink += *token;
        char *copy = strdup(one); free(copy); copy = strndup(two, m); free(copy);
        for (int k = 0; k < 256; k += 7) {
            sink += isalpha(k) + isdigit(k) + isspace(k) + isupper(k) + ispunct(k) + isxdigit(k) + toupper(k) + tolower(k) + isprint(k) + iscntrl(k);
            sink += iswalpha(k * 9) + towupper(k * 9) + iswspace(k) + towlower(k * 5) + iswctype(k, wctype("alnum")) + wcwidth(k * 31);
        }
        sprintf(three, "%ld", (long)(next() >> (n & 63)));
        sink += atoi(three) + atol(three) + strtol(three, NULL, 0) + strtoul(three, NULL, 16) + (uint64_t)strtod(three, NULL) + strtoimax(three, NULL, 10);
        sink += abs(c - 100) + labs(c - 99) + div(c, (int)m + 1).rem + ldiv(c, 7).quot + lldiv(c, 9).rem + ffs(c) + ffsl(c) + (uint64_t)(a64l("abc") + *l64a(c));
        sink += htonl(c) + ntohs((uint16_t)c) + inet_addr("10.1.2.3") + (inet_ntop(AF_INET, &n, three, 100) != NULL) + (uint64_t)inet_pton(AF_INET6, "fe80::1:2", three);
        srand(c); sink += rand() + random() + (uint64_t)(drand48() * 100) + lrand48() + nrand48((unsigned short[]){ 1, 2, 3 });
        qsort(numbers, 50, sizeof(int), by_value);
        sink += bsearch(&c, numbers, 50, sizeof(int), by_value) != NULL;
        void *tree = NULL;
        for (int i = 0; i < 20; i++) tsearch(&numbers[i * 2], &tree, by_value);
        sink += tfind(&numbers[4], &tree, by_value) != NULL;
        twalk(tree, nothing);
        for (int i = 0; i < 20; i++) tdelete(&numbers[i * 2], &tree, by_value);
        time_t when = (time_t)(next() >> 33);
        struct tm broken;
        gmtime_r(&when, &broken); sink += timegm(&broken) + strftime(three, 500, "%a %d %b %Y %H:%M:%S %j %U %G", &broken) + (strptime("2020-02-29 12:30:11", "%F %T", &broken) != NULL);
        localtime_r(&when, &broken); sink += mktime(&broken) + (uint64_t)difftime(when, 5) + (asctime_r(&broken, three) != NULL) + (ctime_r(&when, three) != NULL);
        sink += snprintf(three, 500, "%5d %-8s %08x %.3f %g %e %c %p %lld %+i %o %%", c, "text", c, c / 7.0, c * 1e9, c / 3e5, 'x', (void *)three, (long long)next(), c, c);
        int a, b; char word[100];
        sink += sscanf("12 0x1f word 3.5", "%d %x %99s", &a, (unsigned *)&b, word);
        sink += mbstowcs(wide, one, 150) + wcslen(wide) + wcscmp(wide, L"abc") + (wcschr(wide, L'x') != NULL) + (wcsstr(wide, L"ab") != NULL) + wcstombs(three, wide, 500);
        wmemset(wide, L'x', m); wmemcpy(wide + 50, wide, m); sink += wmemcmp(wide, wide + 50, m) + wcsspn(wide, L"x") + swprintf(wide, 100, L"%d %ls", c, L"wide") + wcstol(L"471", NULL, 10);
        sink += mblen(one, 4) + btowc(c) + wctob(c) + mbrtowc(wide, "\xc3\xa9", 2, NULL);
        sink += fnmatch("a*[xyz]?", one, 0) + (basename(strcpy(three, "/usr/lib/x")) != NULL) + (dirname(strcpy(three, "/usr/lib/x")) != NULL);
        sigset_t set; sigemptyset(&set); sigaddset(&set, 3); sigdelset(&set, 4); sink += sigismember(&set, c % 30 + 1) + sigfillset(&set);
        sink += (strerror(c % 130) != NULL) + (strsignal(c % 30) != NULL) + (nl_langinfo(CODESET) != NULL) + (getenv("PATH") != NULL) + (getenv("NONE") != NULL) + setenv("ORACLE", one, 1);
        fesetround(FE_TONEAREST); feclearexcept(FE_ALL_EXCEPT); sink += fetestexcept(FE_ALL_EXCEPT) + fegetround();
        swab(one, three, m & ~1ul); sink += getpagesize() + sysconf(_SC_PAGESIZE) + getpid() + (uint64_t)clock();
        insque(numbers, NULL); sink += hcreate(30); ENTRY entry = { "key", NULL }; sink += (hsearch(entry, ENTER) != NULL) + (hsearch(entry, FIND) != NULL); hdestroy();
        void *block = malloc(n + 1); block = realloc(block, n * 3 + 8); free(block); block = calloc(m + 1, 9); free(block); free(aligned_alloc(64, 256));
        if (round % 10 == 0) {
            regex_t pattern;
            if (!regcomp(&pattern, "(a|b)+c*[x-z]{1,2}", REG_EXTENDED)) { sink += regexec(&pattern, one, 0, NULL, 0); regfree(&pattern); }
            glob_t found; if (!glob("/etc/host*", 0, NULL, &found)) globfree(&found);
            struct stat status; sink += stat("/", &status);
            char *words[] = { "x", "-a", "-b", "7", "--long=3", NULL }; struct option options[] = { { "long", 1, NULL, 'l' }, { 0 } };
            optind = 0; while ((a = getopt_long(5, words, "ab:", options, NULL)) != -1) sink += a;
            FILE *file = tmpfile();
            if (file) { fputs(one, file); fprintf(file, "%d", c); rewind(file); sink += fgetc(file) + (fgets(three, 100, file) != NULL) + ftell(file) + fread(three, 1, 9, file); ungetc('x', file); sink += feof(file) + ferror(file) + fileno(file); fclose(file); }
        }
    }
    printf("%llu\n", (unsigned long long)sink);
    return 0;
}
