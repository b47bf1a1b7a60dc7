// A library whose constructor, which runs before that of a preloaded library, binds the module $FIRST deeply.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

__attribute__((constructor)) static void first(void) {
    const char *module = getenv("FIRST");
    if (module && !dlopen(module, RTLD_NOW | RTLD_DEEPBIND)) abort();
}
