#!/bin/sh
# Prints a C program for a compiler to work on: a stack machine with many instructions, each a function of its own, and the
# loop that dispatches them. The argument is the number of instructions.
count=${1:-150}
cat <<'HEAD'
typedef unsigned long word;
struct machine { word stack[256]; unsigned depth; word registers[16]; word steps; };
HEAD
i=0
while [ $i -lt "$count" ]; do
  a=$((i % 16)) b=$((i * 7 % 16)) c=$((i * 13 + 5)) s=$((i % 31 + 1))
  cat <<BODY
static word instruction_$i(struct machine *machine, word operand)
{
    word *registers = machine->registers, sum = operand * ${c}ul;
    for (unsigned round = 0; round < machine->depth % $((i % 9 + 2)); round++) {
        if ((registers[$a] ^ round) & ${s}ul)
            sum += registers[$b] >> (round + $s);
        else
            sum = (sum << $s) | (sum >> (64 - $s));
        registers[(round + $a) % 16] = sum - machine->stack[(machine->depth + round) % 256];
    }
    switch (sum % 5) {
    case 0: machine->stack[machine->depth++ % 256] = sum; break;
    case 1: registers[$b] += sum; break;
    case 2: machine->depth -= machine->depth > 0; break;
    default: sum ^= registers[$a] + ${c}ul;
    }
    return sum + machine->steps++;
}
BODY
  i=$((i + 1))
done
echo "word run(struct machine *machine, const unsigned char *program, unsigned length)"
echo "{"
echo "    word result = 0;"
echo "    for (unsigned at = 0; at < length; at++)"
echo "        switch (program[at]) {"
i=0
while [ $i -lt "$count" ]; do
  echo "        case $((i % 256))$([ $i -ge 256 ] && echo " + 0x$i"): result ^= instruction_$i(machine, result); break;"
  i=$((i + 1))
done
echo "        default: return result;"
echo "        }"
echo "    return result;"
echo "}"
