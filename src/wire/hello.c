/* Greetings: who connects, and who answers. */
#include "wire/bytes.h"
#include "wire/message.h"
#include <string.h>

size_t rt_hello_encode(const struct rt_hello *hello, uint8_t *bytes, size_t room) {
    struct rt_writer writer = {.bytes = bytes, .room = room};
    rt_write_u8(&writer, hello->role);
    rt_write_u16(&writer, hello->from);
    rt_write_u16(&writer, hello->label);
    rt_write_raw(&writer, hello->answer, sizeof hello->answer);
    rt_write_text(&writer, hello->version);
    return rt_writer_end(&writer);
}

static void read_answer(struct rt_reader *reader, uint8_t answer[32]) {
    const uint8_t *at = rt_read_raw(reader, 32);
    if (at)
        memcpy(answer, at, 32);
}

rt_status rt_hello_decode(const uint8_t *bytes, size_t count, struct rt_hello *hello, struct rt_error *err) {
    struct rt_reader reader = {.name = "hello", .bytes = bytes, .count = count, .err = err};
    struct rt_hello made = {0};
    made.role = rt_read_u8(&reader);
    made.from = rt_read_index(&reader, "node", RT_MAX_NODES);
    made.label = rt_read_u16(&reader);
    read_answer(&reader, made.answer);
    rt_read_text(&reader, "version", made.version);
    if (made.role != RT_ROLE_MASTER && made.role != RT_ROLE_NODE)
        rt_reader_refuse(&reader, "names role %u, which is unknown", made.role);
    if (made.role == RT_ROLE_MASTER && made.from != 0)
        rt_reader_refuse(&reader, "is from a master that calls itself node %u", made.from);
    rt_status status = rt_reader_end(&reader);
    if (status == RT_OK)
        *hello = made;
    return status;
}

size_t rt_welcome_encode(const struct rt_welcome *welcome, uint8_t *bytes, size_t room) {
    struct rt_writer writer = {.bytes = bytes, .room = room};
    rt_write_raw(&writer, welcome->answer, sizeof welcome->answer);
    rt_write_u32(&writer, welcome->cores);
    rt_write_u32(&writer, welcome->threads);
    rt_write_u64(&writer, welcome->memory);
    rt_write_text(&writer, welcome->name);
    rt_write_text(&writer, welcome->version);
    rt_write_text(&writer, welcome->kernels);
    return rt_writer_end(&writer);
}

static uint32_t read_cores(struct rt_reader *reader, const char *what) {
    uint32_t count = rt_read_u32(reader);
    if (count > RT_MAX_CORES)
        rt_reader_refuse(reader, "speaks of %lu %s; at most %d can be", (unsigned long)count, what,
                         RT_MAX_CORES);
    return count;
}

rt_status rt_welcome_decode(const uint8_t *bytes, size_t count, struct rt_welcome *welcome,
                            struct rt_error *err) {
    struct rt_reader reader = {.name = "welcome", .bytes = bytes, .count = count, .err = err};
    struct rt_welcome made = {0};
    read_answer(&reader, made.answer);
    made.cores = read_cores(&reader, "cores");
    made.threads = read_cores(&reader, "threads");
    made.memory = rt_read_u64(&reader);
    rt_read_text(&reader, "name", made.name);
    rt_read_text(&reader, "version", made.version);
    rt_read_text(&reader, "name of its kernels", made.kernels);
    rt_status status = rt_reader_end(&reader);
    if (status == RT_OK)
        *welcome = made;
    return status;
}
