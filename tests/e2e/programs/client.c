/* Echo client in plain C, to be built against glibc, musl, or statically: `client PORT BYTES`. */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static unsigned char out[1 << 20], back[1 << 20];

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    size_t size = atoi(argv[2]), sent = 0, got = 0;
    for (size_t i = 0; i < size; i++)
        out[i] = (unsigned char)(i * 31 + size);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) != 0) {
        perror("connect");
        return 1;
    }
    while (got < size) {
        /* (What is written before the server has looked goes over TCP: one byte, until it is back.) */
        size_t most = got > 0 ? size : 1;
        struct pollfd p = {.fd = fd, .events = POLLIN | (sent < most ? POLLOUT : 0)};
        if (poll(&p, 1, 10000) <= 0) {
            fprintf(stderr, "poll: nothing within 10 s, sent %zu got %zu\n", sent, got);
            return 1;
        }
        if (p.revents & POLLOUT) {
            ssize_t n = send(fd, out + sent, most - sent < 30000 ? most - sent : 30000, MSG_DONTWAIT);
            sent += n > 0 ? n : 0;
        }
        if (p.revents & POLLIN) {
            ssize_t n = read(fd, back + got, size - got);
            if (n <= 0) {
                fprintf(stderr, "read returned %zd after %zu\n", n, got);
                return 1;
            }
            got += n;
        }
    }
    printf("%zu bytes back, %s\n", got, memcmp(out, back, size) ? "DIFFERENT" : "same");
    return 0;
}
