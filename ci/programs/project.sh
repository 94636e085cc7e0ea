#!/bin/sh
# Writes a project of C and C++ files with a makefile into the folder it is called in: the same files every time.
set -eu
i=0
while [ $i -lt 4 ]; do
    i=$((i + 1))
    awk -v n=$i 'BEGIN {
        print "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <math.h>";
        for (f = 0; f < 50; f++) {
            printf "struct s%d_%d { int a[%d]; double d; struct s%d_%d *next; char name[%d]; };\n", n, f, f % 7 + 1, n, f, f % 31 + 1;
            printf "static double f%d_%d(struct s%d_%d *x, int k) {\n  double r = k;\n", n, f, n, f;
            printf "  for (int i = 0; i < %d && x; i++, x = x->next) switch ((k + i) %% 9) {\n", f % 23 + 2;
            for (c = 0; c < 9; c++) printf "  case %d: r = r * %d.5 + x->a[i %% %d] - sqrt(fabs(x->d + %d)); break;\n", c, c + f % 5, f % 7 + 1, c;
            print "  }\n  return r;\n}";
        }
        printf "double g%d(int k) {\n  double r = 0;\n", n;
        for (f = 0; f < 50; f++) printf "  { struct s%d_%d x; memset(&x, k, sizeof x); x.next = 0; r += f%d_%d(&x, k + %d); }\n", n, f, n, f, f;
        print "  return r;\n}";
    }' >"c$i.c"
done
for i in 1; do
    cat >"x$i.cc" <<CODE
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>
namespace n$i {
template <int N> struct step { static std::map<int, std::string> at(int k) {
    auto m = step<N - 1>::at(k); m[N * k] = std::to_string(N) + m[k]; return m; } };
template <> struct step<0> { static std::map<int, std::string> at(int k) { return {{k, "end"}}; } };
using value = std::variant<int, double, std::string, std::vector<int>>;
}
extern "C" double h$i(int k) {
    std::unordered_map<std::string, n$i::value> all;
    for (auto &[key, text] : n$i::step<40>::at(k)) all[text] = key;
    std::vector<std::shared_ptr<std::string>> words;
    for (auto &[name, v] : all) words.push_back(std::make_shared<std::string>(name));
    std::sort(words.begin(), words.end(), [](auto &a, auto &b) { return *a < *b; });
    std::function<double(int)> f = [&](int n) { return n < 2 ? 1.0 : f(n - 1) + words.size(); };
    return f(k % 10) + std::regex_match(*words[0], std::regex("[0-9]+(end)?"));
}
CODE
done
{
    echo '#include <stdio.h>'
    for i in 1 2 3 4; do echo "double g$i(int);"; done
    echo 'double h1(int);'
    printf '%s\n' 'int main(void) { printf("%.3f\n", g1(1)+g2(2)+g3(3)+g4(4)+h1(3)); return 0; }'
} >main.c
cat >Makefile <<'MAKE'
objects = main.o c1.o c2.o c3.o c4.o x1.o
program: $(objects)
	g++ -o $@ $(objects) -lm
%.o: %.c
	gcc -O2 -g0 -c -o $@ $<
%.o: %.cc
	g++ -std=c++17 -O1 -g0 -c -o $@ $<
MAKE
