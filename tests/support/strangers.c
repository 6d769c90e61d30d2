#include "support/strangers.h"

#include "net/tcp.h"
#include "support/test.h"
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

static bool speak_another_language(const char *address) {
    static const char words[] = "GET / HTTP/1.1\r\nHost: somewhere else\r\n\r\n";
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    to.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0 &&
                send(fd, words, sizeof words - 1, MSG_NOSIGNAL) == (ssize_t)(sizeof words - 1);
    if (fd >= 0)
        close(fd);
    return good;
}

bool strangers_call(struct strangers *strangers, const struct rt_endpoint *called) {
    struct rt_link *links[2] = {NULL, NULL};
    struct rt_error err = {.text = ""};
    if (rt_tcp_create(&(struct rt_tcp_settings){0}, &strangers->endpoint, &err) != RT_OK) {
        rt_test_fail(__FILE__, __LINE__, "%s", err.text);
        return false;
    }
    for (int i = 0; i < 2; i++) {
        struct rt_event event = {.kind = RT_EVENT_WOKEN};
        const double until = rt_endpoint_now(strangers->endpoint) + 30;
        if (rt_endpoint_connect(strangers->endpoint, called->address, until, &links[i], &err) != RT_OK ||
            !rt_endpoint_wait(strangers->endpoint, until, &event) || event.kind != RT_EVENT_CONNECTED) {
            rt_test_fail(__FILE__, __LINE__, "strangers cannot call: %s%s", err.text, event.error.text);
            return false;
        }
    }
    strangers->claim = (struct rt_send){.channel = RT_CHANNEL_CONTROL, .head_bytes = 1, .head = {0}};
    rt_link_send(links[0], &strangers->claim);
    rt_link_close(links[1]);
    return speak_another_language(called->address);
}

void strangers_leave(struct strangers *strangers) {
    rt_endpoint_destroy(strangers->endpoint);
    strangers->endpoint = NULL;
}
