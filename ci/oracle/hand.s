# Hand-written functions with code that compilers rarely generate, and those of known.s. Each takes up to three words.
# `functions` lists them.

        .include "known.s"
        .text

        .macro begin name
        .globl \name
        .type \name, @function
\name:
        .endm

        # A loop whose header is the entry.
        begin own_entry
        dec rdi
        jg own_entry
        ret
        .size own_entry, . - own_entry

        # Two functions share their end, which precedes both.
shared_end:
        add rax, rsi
        ret
        begin first_user
        lea rax, [rdi + 1]
        jmp shared_end
        .size first_user, . - first_user
        begin second_user
        test rdi, rdi
        jz shared_end
        lea rax, [rdi + rdi]
        inc rax
        jmp shared_end
        .size second_user, . - second_user

        # Falls into the next function.
        begin falls_into
        test rdi, rdi
        jz 1f
        inc rsi
1:      nop
        .size falls_into, . - falls_into
        begin fallen_into
        lea rax, [rsi + rdx]
        ret
        .size fallen_into, . - fallen_into

        # Two entries, one within the other's code.
        begin outer_entry
        inc rdi
        inc rdi
        begin inner_entry
        cmp rdi, 3
        jb 1f
        dec rdi
1:      mov rax, rdi
        ret
        .size inner_entry, . - inner_entry
        .size outer_entry, . - outer_entry

        # Reads its own address with a call to the next instruction.
        begin position
        call 1f
1:      pop rax
        ret
        .size position, . - position

        # Jumps by pushing an address and returning.
        begin push_return
        lea rax, [rip + far_away]
        push rax
        ret
        .size push_return, . - push_return
        begin far_away
        mov ecx, 500
1:      dec ecx
        jnz 1b
        ret
        .size far_away, . - far_away

        # Moves the stack pointer in ways that cannot be followed.
        begin pop_stack
        lea rcx, [rip + far_away]
        lea rax, [rsp - 8]
        mov [rax], rcx
        sub rsp, 32
        push rax
        pop rsp
        ret
        .size pop_stack, . - pop_stack
        begin leave_frame
        push rbp
        mov rbp, rsp
        sub rsp, rdi
        sub rsp, rsi
        leave
        ret
        .size leave_frame, . - leave_frame
        begin exchanged_stack
        mov rax, rsp
        lea rsp, [rip + stack_end]
        push rax
        push rdi
        pop rdi
        pop rsp
        ret
        .size exchanged_stack, . - exchanged_stack

        # Overwrites its return address.
        begin overwrites
        lea rcx, [rip + elsewhere]
        xchg [rsp], rcx
        mov [rip + saved], rcx
        ret
elsewhere:
        mov ecx, 500
1:      dec ecx
        jnz 1b
        jmp [rip + saved]
        .size overwrites, . - overwrites

        # Instructions that overlap: the jump leads into an immediate.
        begin overlaps
        test rdi, rdi
        jz 1f + 2
1:      mov eax, 0x90c39090
        mov eax, esi
        ret
        .size overlaps, . - overlaps

        # Repeated, and not.
        begin repeats
        mov rcx, rdi
        lea rdi, [rip + room]
        xor eax, eax
        rep stosb
        ret
        .size repeats, . - repeats
        begin single_strings
        lea rdi, [rip + room]
        lea rsi, [rip + room + 64]
        movsb
        movsq
        lodsb
        stosw
        cmpsb
        scasb
        ret
        .size single_strings, . - single_strings
        begin searches
        mov rcx, 40
        lea rdi, [rip + room]
        mov eax, esi
        repne scasb
        mov rax, rcx
        ret
        .size searches, . - searches

        # Branches that read rcx, and the loop instructions.
        begin counts_down
        lea rcx, [rdi + 1]
        xor eax, eax
1:      add rax, rcx
        jrcxz 2f
        loop 1b
2:      ret
        .size counts_down, . - counts_down
        begin loops_while_equal
        lea rcx, [rdi + 3]
        xor eax, eax
1:      inc eax
        cmp eax, esi
        loopne 1b
        ret
        .size loops_while_equal, . - loops_while_equal

        # A conditional jump to another function: a tail call that may not be taken.
        begin conditional_tail_call
        cmp rdi, rsi
        ja counts_down
        jb fallen_into
        mov eax, 9
        ret
        .size conditional_tail_call, . - conditional_tail_call

        # Through constant memory and through memory that changes.
        begin constant_jump
        jmp [rip + constant]
        .size constant_jump, . - constant_jump
        begin variable_jump
        jmp [rip + variable]
        .size variable_jump, . - variable_jump
        begin constant_call
        sub rsp, 8
        call [rip + constant]
        add rsp, 8
        ret
        .size constant_call, . - constant_call
        begin table_jump
        and edi, 3
        lea rax, [rip + table]
        movsxd rcx, [rax + 4 * rdi]
        add rax, rcx
        jmp rax
.Lsame: ret
.Lmore: inc eax
        ret
.Lless: dec eax
        jmp .Lsame
        .size table_jump, . - table_jump

        # In a section of its own, like rarely executed code.
        begin split
        cmp rdi, 4
        je split.cold
        cmp rdi, 5
        je split_part
1:      mov eax, 4
        ret
        .size split, . - split

        .section .text.unlikely, "ax", @progbits
        .type split.cold, @function
split.cold:
        mov ecx, 50
2:      dec ecx
        jnz 2b
        jmp 1b
        .size split.cold, . - split.cold
        .type split_part, @function
split_part:
        inc rdi
        inc rdi
        jmp 1b
        .size split_part, . - split_part

        # In a writable segment.
        .section .patched, "awx", @progbits
        begin patched
        mov eax, 1
        nop
        ret
        ret
        .size patched, . - patched

        .text
        # Writes into code that it then executes.
        begin patches
        lea rax, [rip + patched]
        mov byte ptr [rax + 6], 0x90
        sub rsp, 8
        call patched
        add rsp, 8
        ret
        .size patches, . - patches

        # Prefixes that change nothing, or that processors interpret differently.
        begin prefixes
        test rdi, rdi
        .byte 0x2e
        jz 1f
        .byte 0x3e
        jmp 2f
1:      lock inc qword ptr [rip + counter]
2:      pause
        rep ret
        .size prefixes, . - prefixes

        # System calls, and instructions that query the processor.
        begin system_call
        mov eax, 39
        syscall
        ret
        .size system_call, . - system_call
        begin processor
        push rbx
        xor eax, eax
        xor ecx, ecx
        cpuid
        pop rbx
        rdtsc
        ret
        .size processor, . - processor

        # Returns and takes arguments from the stack.
        begin returns_over
        ret 8
        .size returns_over, . - returns_over
        begin calls_returns_over
        push rdi
        call returns_over
        ret
        .size calls_returns_over, . - calls_returns_over

        # Recursive with a counter.
        begin recursive
        test rdi, rdi
        jz 1f
        dec rdi
        call recursive
1:      inc rax
        ret
        .size recursive, . - recursive

        # Nested loops; the inner one leaves both.
        begin leaves_both
        xor eax, eax
1:      mov rcx, rsi
2:      inc eax
        cmp eax, edx
        je 3f
        dec rcx
        jg 2b
        dec rdi
        jg 1b
3:      ret
        .size leaves_both, . - leaves_both

        # A loop with two entries.
        begin two_entries
        lea rcx, [rdi + 4]
        test rsi, rsi
        jz 2f
1:      inc eax
2:      dec rcx
        jnz 1b
        ret
        .size two_entries, . - two_entries

        # A loop with two ways around, one with a loop inside.
        begin two_ways
        lea rcx, [rdi + 1]
1:      dec rcx
        js 3f
        test cl, 1
        jz 1b
        mov rdx, rsi
2:      dec rdx
        jg 2b
        jmp 1b
3:      ret
        .size two_ways, . - two_ways

        .data
        .balign 8
room:   .zero 256
        .zero 4096
stack_end:
        .zero 64
counter: .quad 0
saved:  .quad 0
variable: .quad fallen_into

        .section .data.rel.ro, "aw", @progbits
        .balign 8
constant: .quad fallen_into
        .globl functions
functions:
        .quad own_entry, first_user, second_user, falls_into, fallen_into, outer_entry, inner_entry, position
        .quad push_return, far_away, pop_stack, leave_frame, exchanged_stack, overwrites, overlaps, repeats
        .quad single_strings, searches, counts_down, loops_while_equal, conditional_tail_call, constant_jump
        .quad variable_jump, constant_call, table_jump, split, patched, patches, prefixes, system_call
        .quad processor, calls_returns_over, recursive, leaves_both, two_entries, two_ways
        # Those of known.s.
        .quad straight, diamond, diamonds, nested_diamonds, conditional_returns, loop_bottom, loop_top
        .quad loop_rotated, loop_entered_at_its_test, loop_instruction, diamond_in_loop, search, nested
        .quad triangular, three_deep, calls, calls_twice, calls_by_table, calls_in_loop, loops_in_loop, tail
        .quad tail_by_table, conditional_tail, calls_tail, aborts, aborts_by_table, traps
        .quad 0

        .section .rodata
        .balign 4
table:  .long .Lsame - table, .Lmore - table, .Lless - table, .Lsame - table
        .section .note.GNU-stack, "", @progbits
