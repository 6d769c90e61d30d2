/* Any text as the job of a node in rings side by side. What is accepted must be usable: every node has a
 * place, and the job of its ring, if that is one, is of its own part. */
#include "formats/yaml.h"
#include "job/job.h"
#include "run/hybrid/job.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { MOST_NODES = 12 };

static void check_node(const struct rt_hybrid_job *job, uint16_t index, size_t nodes) {
    struct rt_error err;
    struct rt_tree *copy;
    struct rt_job *ring;
    if (job->rings < 2 || (size_t)job->rings * job->places != nodes || job->ours >= job->rings ||
        job->place >= job->places || job->ours * job->places + job->place != index)
        abort();
    if (rt_tree_copy(job->ring, &copy, &err) != RT_OK || rt_job_create(copy, &ring, &err) != RT_OK)
        return;
    const bool shares = rt_hybrid_shares(job->inter_ring->strategy, &job->inter_ring->options);
    if (ring->part != (shares ? job->ours : 0) || ring->parts != (shares ? job->rings : 1) ||
        ring->with_servers != job->with_servers)
        abort();
    rt_job_destroy(ring);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct rt_error err;
    struct rt_tree *tree;
    if (rt_yaml_parse((const char *)data, bytes, "fuzz", &tree, &err) != RT_OK)
        return 0;
    for (size_t nodes = 1; nodes <= MOST_NODES; nodes++) {
        struct rt_hybrid_job *job;
        const uint16_t index = (uint16_t)(nodes - 1);
        if (rt_hybrid_job_create(tree, index, nodes, &job, &err) != RT_OK)
            continue;
        check_node(job, index, nodes);
        rt_hybrid_job_destroy(job);
    }
    rt_tree_destroy(tree);
    return 0;
}
