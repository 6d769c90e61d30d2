/* Links under a cluster key or certificates: they carry what plain links carry, and a stranger is refused
 * with a message on both sides. */
/* labels: threads */
#include "tcp_rig.h"
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

static const uint8_t key[RT_KEY_BYTES] = {1, 2, 3}, other_key[RT_KEY_BYTES] = {1, 2, 4};

/* Many frames both ways on all channels, with sizes around that of a TLS record, and a large one. */
static void carry_frames(struct pair *pair) {
    static const size_t sizes[] = {0,     1,     16272, 16273, 16276, 16277,  16384,
                                   16385, 32768, 70000, 1,     0,     5000000};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    static struct rt_send sends[2][COUNT];
    static struct rt_receive receives[2][COUNT];
    uint8_t *source = malloc(5000000), *bodies[2][COUNT];
    struct rt_link *links[2] = {pair->ab, pair->ba};
    struct rt_endpoint *endpoints[2] = {pair->a, pair->b};
    fill_bytes(source, 5000000, 3);
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < COUNT; i++) {
            unsigned channel = (unsigned)i % RT_CHANNELS;
            bodies[side][i] = calloc(1, sizes[i] + 1);
            receives[side][i] = make_receive(channel, bodies[side][i], sizes[i]);
            sends[side][i] = make_send(channel, "head", source, sizes[i] / 2);
            sends[side][i].body[1] = (struct rt_piece){source + sizes[i] / 2, sizes[i] - sizes[i] / 2};
            rt_link_receive(links[side], &receives[side][i]);
            rt_link_send(links[side], &sends[side][i]);
        }
    for (int side = 0; side < 2; side++) {
        for (int seen = 0; seen < 2 * COUNT; seen++)
            REQUIRE(rt_endpoint_wait(endpoints[side], rt_clock_wall() + PATIENCE, &event) &&
                    (event.kind == RT_EVENT_SENT || event.kind == RT_EVENT_RECEIVED));
        for (int i = 0; i < COUNT; i++) {
            CHECK(receives[side][i].body_bytes == sizes[i]);
            CHECK_MSG(memcmp(bodies[side][i], source, sizes[i]) == 0, "body %d", i);
            free(bodies[side][i]);
        }
    }
    uint64_t payload = 0;
    for (int i = 0; i < COUNT; i++)
        payload += sizes[i];
    CHECK(pair->ab->counts.wire_sent > payload && pair->ab->counts.wire_sent < payload * 101 / 100 + 5000);
    free(source);
}

TEST(a_cluster_key_encrypts) {
    struct pair pair;
    REQUIRE(make_pair((struct rt_tcp_settings){.key = key}, &pair));
    carry_frames(&pair);
    rt_link_close(pair.ab);
    REQUIRE(expect(pair.b, RT_EVENT_CLOSED));
    CHECK(says("closed the connection"));
    destroy_pair(&pair);
}

/* The key of a direction is replaced every 16 MiB. */
TEST(keys_change_on_the_way) {
    const size_t bytes = 40 << 20;
    struct pair pair;
    REQUIRE(make_pair((struct rt_tcp_settings){.key = key}, &pair));
    uint8_t *source = malloc(bytes), *body = calloc(1, bytes);
    REQUIRE(source && body);
    for (size_t i = 0; i < bytes; i += 4096)
        memcpy(source + i, &i, sizeof i);
    struct rt_receive receive = make_receive(RT_CHANNEL_FIRST, body, bytes);
    struct rt_send send = make_send(RT_CHANNEL_FIRST, "", source, bytes);
    rt_link_receive(pair.ba, &receive);
    rt_link_send(pair.ab, &send);
    REQUIRE(expect(pair.b, RT_EVENT_RECEIVED));
    CHECK(memcmp(source, body, bytes) == 0);
    destroy_pair(&pair);
    free(source);
    free(body);
}

TEST(with_a_key_listening_beyond_loopback_is_allowed) {
    struct rt_endpoint *endpoint = make_endpoint((struct rt_tcp_settings){.key = key});
    struct rt_error err;
    CHECK_OK(rt_endpoint_listen(endpoint, "0.0.0.0:0", &err));
    rt_endpoint_destroy(endpoint);
}

/* A connects to B; both must say the same. */
static void check_refused(struct rt_tcp_settings a_settings, struct rt_tcp_settings b_settings,
                          const char *a_says, const char *b_says) {
    struct rt_endpoint *a = make_endpoint(a_settings), *b = make_endpoint(b_settings);
    struct rt_error err;
    struct rt_link *link;
    REQUIRE(a && b);
    CHECK_OK(rt_endpoint_listen(b, "127.0.0.1:0", &err));
    double before = rt_clock_wall();
    CHECK_OK(rt_endpoint_connect(a, b->address, before + PATIENCE, &link, &err));
    REQUIRE(expect(a, RT_EVENT_CLOSED));
    CHECK(event.link == link && says(a_says));
    REQUIRE(expect(b, RT_EVENT_REFUSED));
    CHECK(event.link == NULL && says(b_says) && says("127.0.0.1:"));
    CHECK(rt_clock_wall() - before < 5);
    CHECK(is_quiet(a, 0.02) && is_quiet(b, 0.02));
    rt_endpoint_destroy(a);
    rt_endpoint_destroy(b);
}

TEST(other_keys_are_refused) {
    const char *sentence = "cluster keys differ";
    check_refused((struct rt_tcp_settings){.key = key}, (struct rt_tcp_settings){.key = other_key}, sentence,
                  sentence);
}

TEST(a_key_on_one_side_only_is_refused) {
    const char *sentence = "one side uses encryption (a cluster key or certificates) and the other does not";
    check_refused((struct rt_tcp_settings){.key = key}, (struct rt_tcp_settings){0}, sentence, sentence);
    check_refused((struct rt_tcp_settings){0}, (struct rt_tcp_settings){.key = key}, sentence, sentence);
}

TEST(an_endpoint_does_not_talk_to_itself_under_a_key) {
    struct rt_endpoint *endpoint = make_endpoint((struct rt_tcp_settings){.key = key});
    struct rt_error err;
    struct rt_link *link;
    CHECK_OK(rt_endpoint_listen(endpoint, "127.0.0.1:0", &err));
    CHECK_OK(rt_endpoint_connect(endpoint, endpoint->address, rt_clock_wall() + PATIENCE, &link, &err));
    bool closed = false, refused = false;
    while (!closed || !refused) {
        REQUIRE(rt_endpoint_wait(endpoint, rt_clock_wall() + PATIENCE, &event));
        REQUIRE(event.kind == RT_EVENT_CLOSED || event.kind == RT_EVENT_REFUSED);
        if (event.kind == RT_EVENT_REFUSED)
            CHECK(says("is this program itself"));
        closed |= event.kind == RT_EVENT_CLOSED;
        refused |= event.kind == RT_EVENT_REFUSED;
    }
    rt_endpoint_destroy(endpoint);
}

/* ---- certificates ---- */

static char directory[200];

static const char *path_of(const char *name, const char *kind) {
    static char paths[8][300];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s.%s", directory, name, kind);
    return path;
}

/* A certificate signed by issuer (NULL: by itself), in files called after it. */
static X509 *make_certificate(const char *name, X509 *issuer, EVP_PKEY *issuer_key, EVP_PKEY **key_out) {
    EVP_PKEY *own = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), issuer ? 2 : 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, own);
    X509_NAME *subject = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(certificate, issuer ? X509_get_subject_name(issuer) : subject);
    if (!issuer) {
        X509_EXTENSION *basic = X509V3_EXT_conf_nid(NULL, NULL, NID_basic_constraints, "critical,CA:TRUE");
        X509_add_ext(certificate, basic, -1);
        X509_EXTENSION_free(basic);
    }
    X509_sign(certificate, issuer ? issuer_key : own, EVP_sha256());
    FILE *file = fopen(path_of(name, "pem"), "w");
    PEM_write_X509(file, certificate);
    fclose(file);
    file = fopen(path_of(name, "key"), "w");
    PEM_write_PrivateKey(file, own, NULL, NULL, 0, NULL, NULL);
    fclose(file);
    *key_out = own;
    return certificate;
}

/* Two authorities, each with one node. */
static bool make_certificates(void) {
    const char *base = getenv("TMPDIR");
    static const char *const names[2][2] = {{"ours", "node"}, {"theirs", "stranger"}};
    snprintf(directory, sizeof directory, "%s/ringtmp-tls-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(directory))
        return false;
    for (int i = 0; i < 2; i++) {
        EVP_PKEY *authority_key, *node_key;
        X509 *authority = make_certificate(names[i][0], NULL, NULL, &authority_key);
        X509 *node = make_certificate(names[i][1], authority, authority_key, &node_key);
        X509_free(authority);
        X509_free(node);
        EVP_PKEY_free(authority_key);
        EVP_PKEY_free(node_key);
    }
    return true;
}

static void remove_certificates(void) {
    static const char *const names[] = {"ours", "node", "theirs", "stranger"};
    for (int i = 0; i < 4; i++) {
        unlink(path_of(names[i], "pem"));
        unlink(path_of(names[i], "key"));
    }
    rmdir(directory);
}

static struct rt_tcp_settings certified(const char *node, const char *authority) {
    return (struct rt_tcp_settings){.certificate = path_of(node, "pem"),
                                    .private_key = path_of(node, "key"),
                                    .authority = path_of(authority, "pem")};
}

TEST(certificates_of_one_authority_make_a_link) {
    struct pair pair;
    REQUIRE(make_certificates());
    REQUIRE(make_pair(certified("node", "ours"), &pair));
    carry_frames(&pair);
    destroy_pair(&pair);
    remove_certificates();
}

TEST(other_certificates_are_refused) {
    REQUIRE(make_certificates());
    const char *not_accepted = "its certificate is not accepted: ";
    check_refused(certified("node", "ours"), certified("stranger", "theirs"), not_accepted,
                  "did not accept our certificate");
    /* The initiator trusts every certificate; the responder does not. */
    check_refused(certified("stranger", "ours"), certified("node", "ours"), "did not accept our certificate",
                  not_accepted);
    check_refused((struct rt_tcp_settings){.key = key}, certified("node", "ours"),
                  "and the other certificates", "");
    check_refused(certified("node", "ours"), (struct rt_tcp_settings){.key = key},
                  "and the other certificates", "and the other certificates");
    check_refused((struct rt_tcp_settings){0}, certified("node", "ours"), "one side uses encryption (",
                  "one side uses encryption (");
    remove_certificates();
}

TEST(settings_that_make_no_sense_are_refused) {
    struct rt_endpoint *endpoint;
    struct rt_error err;
    REQUIRE(make_certificates());
    struct rt_tcp_settings settings = certified("node", "ours");
    settings.key = key;
    CHECK(rt_tcp_create(&settings, &endpoint, &err) == RT_BAD_INPUT && strstr(err.text, "not both"));
    settings.key = NULL;
    settings.private_key = NULL;
    CHECK(rt_tcp_create(&settings, &endpoint, &err) == RT_BAD_INPUT && strstr(err.text, "need all three"));
    settings.private_key = path_of("stranger", "key");
    CHECK(rt_tcp_create(&settings, &endpoint, &err) == RT_BAD_INPUT && strstr(err.text, "stranger.key"));
    settings = certified("nobody", "ours");
    CHECK(rt_tcp_create(&settings, &endpoint, &err) == RT_BAD_INPUT && strstr(err.text, "nobody.pem"));
    settings = certified("node", "nobody");
    CHECK(rt_tcp_create(&settings, &endpoint, &err) == RT_BAD_INPUT && strstr(err.text, "nobody.pem"));
    remove_certificates();
}

TEST_MAIN()
