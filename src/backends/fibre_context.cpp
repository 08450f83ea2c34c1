#include "backends/fibre_context.h"

#include <cstdint>

namespace ft {

#if defined(__x86_64__) || defined(__aarch64__)
/// Saves the registers that a call must keep, and continues where `to` was saved.
extern "C" void ft_switch_fibre(void** from, void* to);
#if defined(__APPLE__)
#define FT_SYMBOL "_ft_switch_fibre"
#else
#define FT_SYMBOL "ft_switch_fibre"
#endif
#if defined(__x86_64__)
asm(".text\n.globl " FT_SYMBOL "\n" FT_SYMBOL
    ":\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
constexpr int kSavedWords = 6;
#else
asm(".text\n.globl " FT_SYMBOL "\n" FT_SYMBOL
    ":\n"
    "sub sp, sp, #160\n"
    "stp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\nstp x25, x26, [sp, #48]\n"
    "stp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\nstp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\n"
    "stp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
    "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
    "ldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\n"
    "ldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\nldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\n"
    "ldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\n"
    "add sp, sp, #160\nret\n");
#endif
void switch_fibre(FibreContext& from, FibreContext& to) { ft_switch_fibre(&from, to); }
void prepare_fibre(FibreContext& context, std::span<std::byte> stack, void (*entry)()) {
  const auto end = reinterpret_cast<std::uintptr_t>(stack.data() + stack.size()) & ~std::uintptr_t{63};
  auto** top = reinterpret_cast<void**>(end);
#if defined(__x86_64__)
  *--top = nullptr;  // where entry() would return to; keeps the stack aligned as after a call
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < kSavedWords; ++i) *--top = nullptr;
#else
  constexpr int kWords = 20, kLink = 11;
  for (int i = 0; i < kWords; ++i) *--top = nullptr;
  top[kLink] = reinterpret_cast<void*>(entry);
#endif
  context = top;
}
#else
void switch_fibre(FibreContext& from, FibreContext& to) { swapcontext(&from, &to); }
void prepare_fibre(FibreContext& context, std::span<std::byte> stack, void (*entry)()) {
  getcontext(&context);
  context.uc_stack.ss_sp = stack.data();
  context.uc_stack.ss_size = stack.size();
  context.uc_link = nullptr;
  makecontext(&context, entry, 0);
}
#endif

}  // namespace ft
