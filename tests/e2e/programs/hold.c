/* A client that connects and stays: `hold PORT`. Built statically, or made set-uid, it is out of the library's reach. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(argc > 1 ? atoi(argv[1]) : 0)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) != 0 || write(fd, "x", 1) != 1) {
        perror("connect");
        return 1;
    }
    printf("connected as %u for %u\n", geteuid(), getuid());
    fflush(stdout);
    sleep(60);
    return 0;
}
