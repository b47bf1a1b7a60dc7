/* Two ends of connections in plain C, for images without glibc: ROLE ADDRESS PORT COUNT, as ends.py has them.
   Each connection carries a message and its echo. Says at the end how many echoes went through memory. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LENGTH = 100000, TCP_INFO_OPTION = 11, ACKED = 120, RECEIVED = 128 };
static unsigned char said[LENGTH], heard[LENGTH];
static int memory, tcp, wrong;

/* The echo is what the server sends: a client's bytes may begin on TCP. */
static void count(int fd, int counter)
{
    unsigned char info[192] = {0};
    socklen_t size = sizeof info;
    uint64_t bytes = ~0ull;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO_OPTION, info, &size) == 0)
        memcpy(&bytes, info + counter, sizeof bytes);
    *(bytes <= 1 ? &memory : &tcp) += 1;
}

static int take(int fd, unsigned char *to, size_t size)
{
    for (size_t got = 0; got < size;) {
        ssize_t n = read(fd, to + got, size - got);
        if (n <= 0)
            return 0;
        got += n;
    }
    return 1;
}

static int give(int fd, const unsigned char *from, size_t size)
{
    for (size_t sent = 0; sent < size;) {
        ssize_t n = write(fd, from + sent, size - sent);
        if (n <= 0)
            return 0;
        sent += n;
    }
    return 1;
}

static void client(struct sockaddr_in *at)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)at, sizeof *at) != 0) {
        perror("connect");
        exit(1);
    }
    wrong += !give(fd, said, LENGTH) || !take(fd, heard, LENGTH) || memcmp(said, heard, LENGTH) != 0;
    count(fd, RECEIVED);
    close(fd);
}

static void serve(int listener)
{
    unsigned char end;
    int fd = accept(listener, NULL, NULL);
    wrong += !take(fd, heard, LENGTH) || memcmp(said, heard, LENGTH) != 0 || !give(fd, heard, LENGTH);
    wrong += read(fd, &end, 1) != 0;
    count(fd, ACKED);
    close(fd);
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[3]))};
    inet_pton(AF_INET, argv[2], &at.sin_addr);
    int is_server = strcmp(argv[1], "server") == 0, listener = -1, yes = 1;
    for (size_t i = 0; i < LENGTH; i++)
        said[i] = (unsigned char)(i * 31 + 7);
    if (is_server) {
        listener = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        if (bind(listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(listener, 16) != 0) {
            perror("listen");
            return 1;
        }
        puts("listens");
        fflush(stdout);
    }
    for (int left = atoi(argv[4]); left > 0; left--)
        is_server ? serve(listener) : client(&at);
    printf("memory %d tcp %d wrong %d\n", memory, tcp, wrong);
    return 0;
}
