// Gives what the allocator holds free back to the system. The C library keeps freed memory for later; after
// a text of megabytes or a cleared cache that would be for ever. Thread: any. Cost: linear in the free pages;
// other threads wait for their arena meanwhile, so this is for the end of rare, large work. Errors: none;
// nothing happens where the C library has no such call.
#pragma once

namespace ft {

void return_free_memory();

}  // namespace ft
