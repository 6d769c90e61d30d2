#include "support/mesh.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "net/tcp.h"
#include "support/strangers.h"
#include "support/test.h"
#include <pthread.h>
#include <stdarg.h>
#include <unistd.h>

enum {
    PATIENCE = 60, /* seconds; nothing takes that long unless it hangs */
    CALLERS = 64,  /* connections that have not identified themselves; further ones are refused */
    HELLO_BYTES = 12,
};

struct mesh {
    size_t n;
    mesh_program program;
    void *user;
    uint64_t mark; /* by which its parties know one another */
    struct rt_endpoint *endpoints[MESH_MOST];
};

bool mesh_take(struct rt_communicator *comm, struct rt_event *event) {
    const double until = rt_endpoint_now(comm->endpoint) + PATIENCE;
    while (rt_endpoint_wait(comm->endpoint, until, event)) {
        if (event->kind == RT_EVENT_REFUSED)
            continue;
        if (event->link && rt_communicator_rank(comm, event->link) == UINT16_MAX) {
            rt_link_close(event->link);
            continue;
        }
        if (event->kind != RT_EVENT_CLOSED)
            return true;
        rt_test_fail(__FILE__, __LINE__, "at party %u: %s", comm->rank, event->error.text);
        return false;
    }
    rt_test_fail(__FILE__, __LINE__, "no event at party %u within %d s", comm->rank, PATIENCE);
    return false;
}

/* ---- joining ---- */

struct caller {
    struct rt_link *link; /* NULL: none */
    struct rt_receive receive;
};

struct joining {
    const struct mesh *mesh;
    struct rt_communicator *comm;
    struct rt_send sends[MESH_MOST];
    bool connected[MESH_MOST], said[MESH_MOST]; /* to those before it */
    struct caller callers[CALLERS];
    size_t missing; /* what is still to be said or heard */
};

static void write_hello(const struct mesh *mesh, uint16_t rank, uint8_t bytes[HELLO_BYTES]) {
    rt_put_le32(bytes, rank);
    rt_put_le32(bytes + 4, (uint32_t)mesh->mark);
    rt_put_le32(bytes + 8, (uint32_t)(mesh->mark >> 32));
}

static struct caller *find_caller(struct joining *joining, const struct rt_link *link) {
    for (size_t i = 0; i < CALLERS; i++)
        if (joining->callers[i].link == link)
            return &joining->callers[i];
    return NULL;
}

static void turn_away(struct caller *caller) {
    rt_link_close(caller->link);
    caller->link = NULL;
}

static void take_call(struct joining *joining, struct rt_link *link) {
    struct caller *caller = find_caller(joining, NULL);
    if (!caller) {
        rt_link_close(link);
        return;
    }
    caller->link = link;
    caller->receive = (struct rt_receive){.channel = RT_CHANNEL_CONTROL};
    rt_link_receive(link, &caller->receive);
}

/* Only those behind it call it, each once. */
static void hear(struct joining *joining, struct caller *caller) {
    struct rt_communicator *comm = joining->comm;
    const struct rt_receive *receive = &caller->receive;
    uint8_t hello[HELLO_BYTES];
    const uint32_t rank = receive->head_bytes == HELLO_BYTES ? rt_get_le32(receive->head) : 0;
    write_hello(joining->mesh, (uint16_t)rank, hello);
    if (rank <= comm->rank || rank >= comm->count || comm->links[rank] ||
        memcmp(receive->head, hello, HELLO_BYTES) != 0) {
        turn_away(caller);
        return;
    }
    comm->links[rank] = caller->link;
    caller->link = NULL;
    joining->missing--;
}

/* false: one of the parties is gone. */
static bool take_in(struct joining *joining, const struct rt_event *event) {
    struct caller *caller = event->link ? find_caller(joining, event->link) : NULL;
    const uint16_t rank = rt_communicator_rank(joining->comm, event->link);
    switch (event->kind) {
    case RT_EVENT_ACCEPTED:
        take_call(joining, event->link);
        break;
    case RT_EVENT_CONNECTED:
        joining->connected[rank] = true;
        break;
    case RT_EVENT_SENT:
        joining->said[rank] = true;
        joining->missing--;
        break;
    case RT_EVENT_RECEIVED:
        hear(joining, caller);
        break;
    case RT_EVENT_CLOSED:
        if (caller)
            turn_away(caller);
        return caller;
    case RT_EVENT_WOKEN:
    case RT_EVENT_REFUSED:
        break;
    }
    return true;
}

/* ---- when it fails ---- */

struct text {
    char bytes[2000];
    size_t length;
};

RT_PRINTF(2, 3) static void add(struct text *text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text->bytes + text->length, sizeof text->bytes - text->length, format, args);
    va_end(args);
    text->length += n > 0 ? (size_t)n : 0;
    if (text->length >= sizeof text->bytes)
        text->length = sizeof text->bytes - 1;
}

static void add_link(struct text *text, const struct rt_link *link) {
    const struct rt_link_counts *counts = &link->counts;
    add(text, " (%s: %llu frames and %llu bytes out, %llu and %llu in)", link->peer,
        (unsigned long long)counts->frames_sent[RT_CHANNEL_CONTROL], (unsigned long long)counts->wire_sent,
        (unsigned long long)counts->frames_received[RT_CHANNEL_CONTROL],
        (unsigned long long)counts->wire_received);
}

static void say_state(const struct joining *joining, const char *why) {
    const struct rt_communicator *comm = joining->comm;
    struct text text = {.length = 0};
    for (uint16_t rank = 0; rank < comm->count; rank++) {
        const bool before = rank < comm->rank;
        if (rank == comm->rank)
            continue;
        add(&text, "\n  party %u: %s", rank,
            !comm->links[rank]         ? (before ? "not called" : "has not said who it is")
            : !before                  ? "joined"
            : joining->said[rank]      ? "joined"
            : joining->connected[rank] ? "connected, and does not take what is said to it"
                                       : "called, and not connected");
        if (comm->links[rank])
            add_link(&text, comm->links[rank]);
    }
    for (size_t i = 0; i < CALLERS; i++)
        if (joining->callers[i].link) {
            add(&text, "\n  somebody has called and says nothing");
            add_link(&text, joining->callers[i].link);
        }
    rt_test_fail(__FILE__, __LINE__, "party %u of %u at %s cannot join: %s; as of the last event:%s",
                 comm->rank, comm->count, comm->endpoint->address, why, text.bytes);
}

static void leave(struct rt_communicator *comm) {
    for (size_t i = 0; i < comm->count; i++) {
        rt_link_close(comm->links[i]);
        comm->links[i] = NULL;
    }
}

/* Connects to the members before it, and sends its rank; accepts those after it, and reads their ranks.
 * Everything posted here is done when this returns, or its link is closed. */
static bool join(const struct mesh *mesh, struct rt_communicator *comm) {
    struct joining joining = {.mesh = mesh, .comm = comm, .missing = comm->count - 1u};
    struct rt_event event = {.error = {.text = ""}};
    struct rt_error err = {.text = ""};
    const double until = rt_endpoint_now(comm->endpoint) + PATIENCE;
    bool good = true;
    for (size_t i = 0; i < comm->rank && good; i++) {
        good = rt_endpoint_connect(comm->endpoint, mesh->endpoints[i]->address, until, &comm->links[i],
                                   &err) == RT_OK;
        if (!good)
            break;
        joining.sends[i] = (struct rt_send){.channel = RT_CHANNEL_CONTROL, .head_bytes = HELLO_BYTES};
        write_hello(mesh, comm->rank, joining.sends[i].head);
        rt_link_send(comm->links[i], &joining.sends[i]);
    }
    while (good && joining.missing > 0) {
        if (!rt_endpoint_wait(comm->endpoint, until, &event)) {
            rt_fail(&err, RT_FAILED, "it took more than %d s", PATIENCE);
            good = false;
        } else if (!take_in(&joining, &event)) {
            err = event.error;
            good = false;
        }
    }
    if (!good)
        say_state(&joining, err.text);
    for (size_t i = 0; i < CALLERS; i++)
        turn_away(&joining.callers[i]);
    if (!good)
        leave(comm);
    return good;
}

static struct rt_communicator make_party(const struct mesh *mesh, size_t i, struct rt_link **links) {
    return (struct rt_communicator){.endpoint = mesh->endpoints[i],
                                    .run = MESH_RUN,
                                    .rank = (uint16_t)i,
                                    .count = (uint16_t)mesh->n,
                                    .links = links};
}

static void attend(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct mesh *mesh = user;
    struct rt_link *links[MESH_MOST] = {NULL};
    struct rt_communicator comm = make_party(mesh, i, links);
    (void)endpoint;
    if (join(mesh, &comm))
        mesh->program(mesh->user, &comm);
}

void mesh_in_memory(const struct rt_memnet_settings *settings, size_t n, mesh_program program, void *user) {
    static const struct rt_memnet_settings ordinary = {
        .seed = 1, .latency = 1e-4, .bandwidth = 1e9, .random_delay = 1e-3};
    struct mesh mesh = {.n = n, .program = program, .user = user};
    struct rt_memnet *net;
    struct rt_error err;
    CHECK_OK(rt_memnet_create(settings ? settings : &ordinary, n, &net, &err));
    for (size_t i = 0; i < n; i++) {
        mesh.endpoints[i] = rt_memnet_endpoint(net, i);
        CHECK_OK(rt_endpoint_listen(mesh.endpoints[i], "mem:*", &err));
    }
    CHECK_OK(rt_memnet_run(net, attend, &mesh, 1e9, &err));
    rt_memnet_destroy(net);
}

/* ---- over TCP ---- */

struct attendant {
    struct mesh *mesh;
    size_t i;
    bool visited; /* by strangers */
    pthread_t thread;
};

static void *attend_over_tcp(void *argument) {
    const struct attendant *attendant = argument;
    struct mesh *mesh = attendant->mesh;
    struct rt_endpoint *endpoint = mesh->endpoints[attendant->i];
    const bool attends = attendant->i % 2 == 0; /* some leave the bytes to the network thread */
    struct strangers early = {.endpoint = NULL}, late = {.endpoint = NULL};
    struct rt_link *links[MESH_MOST] = {NULL};
    struct rt_communicator comm = make_party(mesh, attendant->i, links);
    bool good = !attendant->visited || strangers_call(&early, endpoint);
    rt_endpoint_attend(endpoint, attends);
    good = good && join(mesh, &comm);
    if (good && attendant->visited) {
        rt_endpoint_attend(endpoint, false);
        good = strangers_call(&late, endpoint);
        rt_endpoint_attend(endpoint, attends);
    }
    if (good)
        mesh->program(mesh->user, &comm);
    if (rt_test_failures > 0) /* it need not be waited for */
        leave(&comm);
    rt_endpoint_attend(endpoint, false);
    strangers_leave(&early);
    strangers_leave(&late);
    return NULL;
}

static void over_tcp(size_t n, bool visited, mesh_program program, void *user) {
    struct mesh mesh = {.n = n, .program = program, .user = user};
    struct attendant attendants[MESH_MOST];
    struct rt_error err;
    /* Parties that are not disturbed lend their large frames, as nodes of one machine do; the others send
     * them. */
    const struct rt_tcp_settings settings = {.cma = visited ? RT_LENDS_NOTHING : RT_LENDS_TO_ITSELF};
    mesh.mark = (uint64_t)getpid() << 32 ^ (uint64_t)(rt_clock_wall() * 1e9);
    for (size_t i = 0; i < n; i++) {
        CHECK_OK(rt_tcp_create(&settings, &mesh.endpoints[i], &err));
        CHECK_OK(rt_endpoint_listen(mesh.endpoints[i], "127.0.0.1:0", &err));
    }
    for (size_t i = 0; i < n; i++) {
        attendants[i] = (struct attendant){.mesh = &mesh, .i = i, .visited = visited};
        if (pthread_create(&attendants[i].thread, NULL, attend_over_tcp, &attendants[i]) != 0)
            exit(1);
    }
    for (size_t i = 0; i < n; i++)
        pthread_join(attendants[i].thread, NULL);
    for (size_t i = 0; i < n; i++)
        rt_endpoint_destroy(mesh.endpoints[i]);
}

void mesh_over_tcp(size_t n, mesh_program program, void *user) {
    over_tcp(n, false, program, user);
}

void mesh_among_strangers(size_t n, mesh_program program, void *user) {
    over_tcp(n, true, program, user);
}
