// A module of modules.c. With -DOUTER it leaves the exchange to another library, which it loads itself with -DOPENS; with -DOWN_SEND it has a send() of its own.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef OUTER
long inner(int fd);
long exchange(int fd) { return inner(fd); }
#elif defined OPENS
long exchange(int fd) {
    void *handle = dlopen("libinner.so", RTLD_NOW);
    long (*inner)(int) = handle ? (long (*)(int))dlsym(handle, "inner") : 0;
    return inner ? inner(fd) : -5;
}
#else
#ifndef NAME
#define NAME exchange
#endif
static long own;
#ifdef OWN_SEND
ssize_t send(int fd, const void *text, size_t len, int flags) {
    (void)flags;
    own++;
    return write(fd, text, len);
}
#endif
// Bytes that came back as they were sent; and how often the module's own send() was called.
long NAME(int fd) {
    char text[1000], back[1000];
    long sum = 0;
    for (int i = 0; i < 1000; i++) {
        memset(text, 'a' + i % 26, sizeof text);
        if (send(fd, text, sizeof text, 0) != sizeof text) return -1;
        for (size_t have = 0; have < sizeof back;) {
            struct pollfd ready = {.fd = fd, .events = POLLIN};
            if (poll(&ready, 1, 5000) != 1) return -2;
            ssize_t got = recv(fd, back + have, sizeof back - have, 0);
            if (got <= 0) return -3;
            have += got;
        }
        if (memcmp(text, back, sizeof back)) return -4;
        sum += sizeof back;
    }
    return sum + own;
}
#endif
