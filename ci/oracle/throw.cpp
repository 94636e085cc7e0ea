// Exceptions, thrown through and caught by functions of many shapes. Handlers run loops, so a bound that misses a handler
// is far too low.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#define KEEP extern "C" __attribute__((noinline, used))

static volatile unsigned long sink;

struct Guard {
    int n;
    explicit Guard(int n) : n(n) {}
    ~Guard() { for (int i = 0; i < n; i++) sink = sink + i; }
};
struct Base { virtual ~Base() = default; virtual int value(int x) const { return x + 1; } };
struct Derived final : Base { int value(int x) const override { return x & 1 ? x * 3 : x - 1; } };
struct Failure : std::runtime_error { int code; Failure(int code) : std::runtime_error("failure"), code(code) {} };

KEEP void work(int n) { for (int i = 0; i < n; i++) sink = sink + (i ^ n); }
KEEP void throws_int(int n) { if (n % 3 == 0) throw n; sink = sink + n; }
KEEP void throws_failure(int n) { if (n % 4 == 1) throw Failure(n); sink = sink + n; }
KEEP void throws_always(int n) { throw n; }
KEEP int passes(int n) { throws_int(n); return n + 1; }
KEEP int cleans(int n) { Guard guard(20); throws_int(n); return n + 2; }
KEEP int catches(int n) { try { throws_int(n); } catch (int x) { work(200 + x % 2); return x; } return n; }
KEEP int catches_all(int n) { try { throws_failure(n); } catch (...) { work(100); return -1; } return n; }
KEEP int catches_base(int n) { try { throws_failure(n); } catch (const std::exception &e) { work(70); return e.what()[0]; } return n; }
KEEP int catches_other(int n) { try { throws_int(n); } catch (const Failure &f) { work(50); return f.code; } return n; }
KEEP int rethrows(int n) { try { return passes(n); } catch (int) { sink = sink + 1; throw; } }
KEEP int catches_rethrown(int n) { try { return rethrows(n); } catch (int x) { work(90); return x; } }
KEEP int nested(int n) { try { try { throws_failure(n); throws_int(n); } catch (const Failure &f) { throws_int(f.code); work(10); } } catch (int x) { work(120); return x; } return n; }
KEEP int in_loop(int n) { int caught = 0; for (int i = 0; i < n; i++) try { throws_int(i); } catch (int) { caught++; work(30); } return caught; }
KEEP int handler_throws(int n) { try { throws_int(n); } catch (int x) { throws_always(x + 1); } return n; }
KEEP int catches_handler(int n) { try { return handler_throws(n); } catch (int x) { work(300); return x; } }
KEEP int never_throws(int n) noexcept { sink = sink + n; return n * 2; }
KEEP int catches_nothing(int n) { try { return never_throws(n); } catch (...) { work(500); return 0; } }
KEEP int ends_in_throw(int n) { try { throws_always(n); } catch (int x) { work(40); sink = sink + x; } return 7; }
KEEP int allocates(int n) { try { std::vector<int> v(n, 3); v.at(5) = 2; return v.at(0); } catch (const std::out_of_range &) { work(60); return -1; } }
KEEP int strings(int n) { std::string s = "abc"; for (int i = 0; i < n; i++) s += char('a' + i % 26); try { return std::stoi(s); } catch (const std::invalid_argument &) { return (int)s.size(); } }
KEEP int casts(const Base *b) { return dynamic_cast<const Derived *>(b) ? 1 : 2; }
KEEP int virtual_call(const Base *b, int x) { return b->value(x) + 1; }
KEEP int owns(int n) { std::unique_ptr<Guard> g(new Guard(n % 9)); throws_int(n); return g->n; }
KEEP int maps(int n) { static std::map<int, int> m; m[n % 7] += n; auto it = m.find(n % 5); return it == m.end() ? 0 : it->second; }
KEEP int lambda(int n) { auto f = [n](int x) { return x * n + (x & 1); }; return f(n) + f(3); }
KEEP int function_try(int n) try { throws_int(n); return 1; } catch (int x) { work(80); return x; }
template <int N> __attribute__((noinline, used)) int instance(int x) { try { throws_int(x); } catch (int) { work(N); } return x + N; }

int main() {
    Base base; Derived derived;
    for (int n = 0; n < 14; n++) {
        for (auto f : { catches, catches_all, catches_base, catches_rethrown, nested, in_loop, catches_handler, catches_nothing, ends_in_throw,
                        allocates, strings, maps, lambda, function_try, instance<25>, instance<125> })
            sink = sink + f(n);
        for (auto f : { passes, cleans, catches_other, rethrows, handler_throws, owns })
            try { sink = sink + f(n); } catch (int) { sink = sink + 5; }
        sink = sink + casts(&base) + casts(&derived) + virtual_call(&base, n) + virtual_call(&derived, n);
    }
    std::printf("%lu\n", (unsigned long)sink);
}
