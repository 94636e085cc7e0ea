// Executes a program on a core's RTL and records every retired instruction; ci/cycles/cores.sh builds one simulator per
// core. One of PICORV32, IBEX and SERV is defined.
//
// Usage: SIMULATOR PROGRAM TRACE [CYCLES]. PROGRAM is an ELF file, or a flat binary for the start of the memory. The
// program ends when it stores to STOP. TRACE receives five little-endian u32 per instruction: the cycle in which it
// retired, its address, the next address, the instruction, and the value of rs2. CYCLES is a limit.
//
// The memory has no wait states. PicoRV32 reads and writes in the cycle of the request. Ibex has every request granted
// at once and answered in the next cycle. SERV's request is acknowledged in the next cycle.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <vector>

#include "Vcore.h"
#include "verilated.h"

static const uint32_t BASE = 0x80000000, BYTES = 1 << 23, STOP = 0xfffffffc;

static std::vector<uint32_t> memory(BYTES / 4);
static bool stopped;

double sc_time_stamp() {
    return 0;
}

[[noreturn]] static void fail(const char *what, const char *name) {
    fprintf(stderr, "%s: %s\n", name, what);
    exit(1);
}

// A word of the memory; addresses outside it wrap, as the cores fetch ahead.
static uint32_t &word(uint32_t address) {
    return memory[address % BYTES / 4];
}

// Stores the bytes that `lanes` selects. A store outside the memory ends the program.
static void store(uint32_t address, uint32_t data, unsigned lanes) {
    if (address - BASE >= BYTES) {
        if ((address & ~3u) != STOP) {
            fprintf(stderr, "store to %08x, outside the memory\n", address);
            exit(1);
        }
        stopped = true;
        return;
    }
    for (unsigned lane = 0; lane < 4; lane++)
        if (lanes >> lane & 1) {
            uint32_t mask = 0xffu << 8 * lane;
            word(address) = (word(address) & ~mask) | (data & mask);
        }
}

static void load(const char *name) {
    FILE *file = fopen(name, "rb");
    if (!file)
        fail("cannot be opened", name);
    std::vector<uint8_t> bytes;
    uint8_t part[1 << 16];
    for (size_t read; (read = fread(part, 1, sizeof part, file));)
        bytes.insert(bytes.end(), part, part + read);
    fclose(file);
    uint8_t *to = (uint8_t *)memory.data();
    if (bytes.size() < sizeof(Elf32_Ehdr) || memcmp(bytes.data(), ELFMAG, SELFMAG)) {
        if (bytes.size() > BYTES)
            fail("larger than the memory", name);
        memcpy(to, bytes.data(), bytes.size());
        return;
    }
    const Elf32_Ehdr *header = (const Elf32_Ehdr *)bytes.data();
    const Elf32_Phdr *segment = (const Elf32_Phdr *)(bytes.data() + header->e_phoff);
    for (int i = 0; i < header->e_phnum; i++, segment++) {
        if (segment->p_type != PT_LOAD || segment->p_memsz == 0)
            continue;
        if (segment->p_paddr - BASE > BYTES || segment->p_memsz > BYTES - (segment->p_paddr - BASE))
            fail("a segment lies outside the memory", name);
        memcpy(to + (segment->p_paddr - BASE), bytes.data() + segment->p_offset, segment->p_filesz);
    }
}

#if defined(PICORV32)
#define CLOCK clk
static void reset(Vcore &core, bool active) {
    core.resetn = !active;
}

static void before_edge(Vcore &core) {
    core.mem_ready = core.mem_valid;
    core.mem_rdata = core.mem_valid ? word(core.mem_addr) : 0;
    if (core.mem_valid && core.mem_wstrb)
        store(core.mem_addr, core.mem_wdata, core.mem_wstrb);
}

static void after_edge(Vcore &) {}
#elif defined(IBEX)
#define CLOCK clk_i
// The requests granted in this cycle, answered after the edge.
static bool fetched, accessed;
static uint32_t instruction, data;

static void reset(Vcore &core, bool active) {
    core.rst_ni = core.scan_rst_ni = !active;
    core.boot_addr_i = BASE;
    core.fetch_enable_i = 5; // IbexMuBiOn
    core.instr_gnt_i = core.data_gnt_i = 1;
}

static void before_edge(Vcore &core) {
    fetched = core.instr_req_o;
    if (fetched)
        instruction = word(core.instr_addr_o);
    accessed = core.data_req_o;
    if (accessed) {
        data = word(core.data_addr_o);
        if (core.data_we_o)
            store(core.data_addr_o, core.data_wdata_o, core.data_be_o);
    }
}

static void after_edge(Vcore &core) {
    core.instr_rvalid_i = fetched;
    core.instr_rdata_i = instruction;
    core.data_rvalid_i = accessed;
    core.data_rdata_i = data;
}
#elif defined(SERV)
#define CLOCK clk
static bool fetched, accessed;

static void reset(Vcore &core, bool active) {
    core.i_rst = active;
}

static void before_edge(Vcore &core) {
    fetched = core.o_ibus_cyc && !core.i_ibus_ack;
    accessed = core.o_dbus_cyc && !core.i_dbus_ack;
    if (accessed && core.o_dbus_we)
        store(core.o_dbus_adr, core.o_dbus_dat, core.o_dbus_sel);
}

static void after_edge(Vcore &core) {
    core.i_ibus_ack = fetched;
    core.i_ibus_rdt = word(core.o_ibus_adr);
    core.i_dbus_ack = accessed;
    core.i_dbus_rdt = word(core.o_dbus_adr);
}
#endif

int main(int count, char **words) {
    if (count < 3)
        fail("usage: SIMULATOR PROGRAM TRACE [CYCLES]", words[0]);
    uint32_t limit = count > 3 ? strtoul(words[3], nullptr, 0) : UINT32_MAX;
    load(words[1]);
    FILE *trace = fopen(words[2], "wb");
    if (!trace)
        fail("cannot be written", words[2]);
    Vcore core;
    // Ibex resets only at a falling edge of its reset.
    reset(core, false);
    core.eval();
    uint32_t cycle = 0;
    for (bool trapped = false; !stopped; cycle++) {
        reset(core, cycle < 10);
        core.CLOCK = 0;
        core.eval();
        if (core.rvfi_valid && cycle >= 10) {
            uint32_t record[5] = {
                cycle, core.rvfi_pc_rdata, core.rvfi_pc_wdata, core.rvfi_insn, core.rvfi_rs2_rdata,
            };
            fwrite(record, sizeof record, 1, trace);
            trapped = core.rvfi_trap;
        }
        if (trapped || cycle == limit) {
            fprintf(stderr, "%s in cycle %u at %08x\n", trapped ? "trap" : "no stop", cycle, core.rvfi_pc_rdata);
            return 1;
        }
        before_edge(core);
        core.eval();
        core.CLOCK = 1;
        core.eval();
        after_edge(core);
    }
    printf("%u cycles\n", cycle);
    return fclose(trace) != 0;
}
