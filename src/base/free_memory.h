// Returns the allocator's free memory to the system. The C library keeps freed memory for later use; after a
// text of megabytes or a cleared cache it would keep it for ever. Thread: any. Cost: linear in the free
// pages; other threads wait for their arena meanwhile, so this is for the end of rare, large work. Errors:
// none; nothing happens where the C library has no such call.
#pragma once

namespace ft {

void return_free_memory();

}  // namespace ft
