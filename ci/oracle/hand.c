/* Calls the functions of hand.s and of known.s. */
extern long (*const functions[])(long, long, long);

int main(void) {
    for (int i = 0; functions[i]; i++)
        for (long a = 1; a < 5; a++)
            for (long b = 1; b < 4; b++)
                for (long c = 1; c < 4; c++) functions[i](a, b, c);
    return 0;
}
