// `modules serve PORT`: echoes, one connection after the other. `modules PORT MODULE deep|plain before|after`: connects,
// loads MODULE before or after, with RTLD_DEEPBIND or without, and has it exchange a megabyte over the connection.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in at(const char *port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
}

static int serve(const char *port) {
    struct sockaddr_in here = at(port);
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&here, sizeof here) || listen(listener, 8)) return perror("listen"), 1;
    for (;;) {
        char text[4096];
        ssize_t got;
        int fd = accept(listener, 0, 0);
        while ((got = read(fd, text, sizeof text)) > 0 && write(fd, text, got) == got) {}
        close(fd);
    }
}

static long (*load(const char *module, int flags))(int) {
    void *handle = dlopen(module, RTLD_LAZY | flags);
    if (!handle) fprintf(stderr, "%s\n", dlerror()), exit(2);
    return (long (*)(int))dlsym(handle, "exchange");
}

int main(int count, char **args) {
    if (count > 2 && !strcmp(args[1], "serve")) return serve(args[2]);
    int flags = strcmp(args[3], "deep") ? 0 : RTLD_DEEPBIND, is_before = !strcmp(args[4], "before");
    long (*exchange)(int) = is_before ? load(args[2], flags) : 0;
    struct sockaddr_in there = at(args[1]);
    char text[6] = "";
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&there, sizeof there)) return perror("connect"), 1;
    for (int i = 0; i < 100; i++)
        if (send(fd, "hello", 5, 0) != 5 || recv(fd, text, 5, MSG_WAITALL) != 5) return perror("exchange"), 1;
    if (!exchange) exchange = load(args[2], flags);
    printf("%s, module %ld\n", text, exchange(fd));
    return 0;
}
