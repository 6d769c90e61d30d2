#!/usr/bin/env bash
# What a person does with a ring beside training: evaluate and predict with a model that is spread over devices, look at
# the plan, watch the table of devices on a terminal, and let devices know each other by certificates.
. "$(dirname "$0")/lib.sh"
write_pictures 96
write_model mlp '[flatten, dense: 24, relu, dense: 20, tanh, dense: 16, relu, dense: 4]'
write_model cnn '[conv2d: {filters: 4, kernel: 3, pad: 1}, relu, residual: [conv2d: {filters: 4, pad: 1}, relu,
    conv2d: {filters: 4, pad: 1}], maxpool: 2, flatten, dense: 16, relu, dense: 4]'
sed -i 's/^data:/&\n  test: {idx: [images, labels]}/' mlp.yaml cnn.yaml
spread=(--set cluster.keep_all=true --set cluster.plan=even)

# runs_of NODE: how many runs a node says it has worked for to the end
runs_of() { grep -c 'has ended' "$1.err"; }
has_served() { [ "$(runs_of "$1")" -ge "$2" ]; }

# ---- eval and predict: one device, three processes, two nodes that are there ----
start_node first
first=$port
start_node second
served=0
for model in mlp cnn; do
    run 0 train $model.yaml --strategy sgd --quiet --out $model
    file=$model/model.safetensors
    run 0 eval $file $model.yaml
    mv out $model.eval
    says $model.eval "examples  96"
    grep -q '^accuracy  0\.[0-9]*$' $model.eval || fail "$model: eval prints no accuracy: $(cat $model.eval)"
    grep -q '^loss  ' $model.eval || fail "$model: eval prints no loss: $(cat $model.eval)"
    run 0 predict $file images --format csv --probs # nine digits: no two floats are written alike
    mv out $model.predict
    [ "$(wc -l <$model.predict)" -eq 97 ] || fail "$model: $(wc -l <$model.predict) lines, not 97"
    for ring in "--nodes 3" "--node 127.0.0.1:$first --node 127.0.0.1:$port"; do
        # shellcheck disable=SC2086 # two words or four
        run 0 eval $file $model.yaml $ring "${spread[@]}"
        cmp -s out $model.eval || fail "$model: eval $ring: $(diff out $model.eval)"
        # shellcheck disable=SC2086
        run 0 predict $file images --format csv --probs $ring "${spread[@]}"
        cmp -s out $model.predict || fail "$model: predict $ring: $(diff out $model.predict | head -4)"
    done
    served=$((served + 2))
    for node in first second; do
        until_true 10 has_served $node $served || fail "$model: $node worked for $(runs_of $node) runs, not $served"
    done
done
cmp -s mlp.predict cnn.predict && fail "both models predict the same: the comparisons prove nothing"
# It is the ring that works, also where the processes are our own: no layers are left for a ninth of them.
refuses 2 "8 layers" predict mlp/model.safetensors images --nodes 9 "${spread[@]}"
refuses 2 "8 layers" eval mlp/model.safetensors mlp.yaml --nodes 9 "${spread[@]}"

# ---- the plan of a ring ----
run 0 plan mlp.yaml --nodes 3 --set cluster.plan=auto
read -ra head <out
[ "${head[*]}" = "node device layers params slots memory busy idle link" ] || fail "the head of the plan is ${head[*]}"
number=0
while read -r row; do
    grep -qE "^$number +(master|local $number) +[0-9]+(-[0-9]+)? [a-z0-9.]+ +[0-9,]+ +[0-9]+ +[0-9.]+ [KMG]?i?B +[0-9.]+ [um]?s +[0-9.]+ % +[0-9.]+ [KMG]?i?B" \
        <<<"$row" || fail "the plan's row $number is '$row'"
    number=$((number + 1))
done < <(sed -n '2,4p' out)
# Who holds what: all layers, each once.
sed -n '2,4p' out | sed -E 's/^ *[0-9]+ +(master|local [0-9]) +([0-9]+)(-([0-9]+))? .*/\2 \4/' |
    awk '{ last = NF > 1 ? $2 : $1; if ($1 != next_layer + 0 || last < $1) bad = 1; next_layer = last + 1 }
        END { exit bad || next_layer != 8 }' || fail "the plan does not give each layer to one node: $(cat out)"
grep -qE '^Predicted: (at most )?[0-9.,]+ samples/s, [0-9.]+ % idle; an update is [0-9]+ micro-batch' out ||
    fail "no prediction: $(tail -1 out)"
# Processes that share a core are measured one by one: what is predicted is the most they can reach.
if command -v taskset >/dev/null; then
    core=$(taskset -cp $$ | sed 's/.*: *\([0-9]*\).*/\1/')
    taskset -c "$core" "$RINGTMP" plan mlp.yaml --nodes 2 >crowded || fail "plan on one core: $(cat crowded)"
    grep -q '^Predicted: at most [0-9.,]* samples/s' crowded && grep -q 'more processes than cores' crowded ||
        fail "two processes on one core: $(tail -2 crowded)"
    taskset -c "$core" "$RINGTMP" plan mlp.yaml --nodes 2 --set cluster.slowdown=[2,2] >roomy || fail "plan on one core: $(cat roomy)"
    grep -q '^Predicted: [0-9]' roomy || fail "two devices, emulated at half the speed, on one core: $(tail -2 roomy)"
fi

# ---- the table of devices ----
if command -v script >/dev/null && script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    script -qec "stty cols 110; TERM=xterm NO_COLOR=1 '$RINGTMP' train mlp.yaml --nodes 3 --out shown \
        --set train.report_seconds=0" /dev/null </dev/null >shown.raw || fail "train on a terminal: $(tail -5 shown.raw)"
    # one state below the other, as if nothing had been cleared
    sed 's/\x1b\[[0-9]*[A-Z]//g' shown.raw | tr '\r' '\n' | sed 's/ *$//; /^$/d' >shown.txt
    grep -q $'\033\[4A' shown.raw || fail "the table of three devices is not redrawn in place"
    grep -A3 -E '^node +layers +samples/s +idle % +queue +MB/s$' shown.txt >live || fail "no live table: $(tail -20 shown.txt)"
    grep -A3 -E '^node +layers +samples/s +idle % +planned +MB/s +MB used +planned$' shown.txt >final ||
        fail "no table at the end: $(tail -20 shown.txt)"
    for node in "0  master" "1  local 1" "2  local 2"; do
        grep -qE "^ +$node +[0-9]-[0-9] +[0-9.,]+ +[0-9.]+ +[0-9]+ +[0-9.]+$" live || fail "live: no figures of $node: $(tail -4 live)"
        grep -qE "^ +$node +[0-9]-[0-9] +[0-9.,]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+$" final ||
            fail "end: no figures of $node: $(cat final)"
    done
    grep -qE '^time .* samples/s \(planned: (at most )?[0-9.,]+\)$' shown.txt || fail "no planned speed beside the measured: $(tail -6 shown.txt)"
    same "with a table" mlp shown
else
    unseen="no pseudo-terminal here (Debian: bsdutils)"
fi

# ---- certificates ----
if command -v openssl >/dev/null; then
    # authority NAME, signed NAME AUTHORITY: NAME.pem and NAME.key
    authority() {
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=$1" \
            -keyout "$1.key" -out "$1.pem" 2>>openssl.log || fail "no authority $1: $(tail -3 openssl.log)"
    }
    signed() {
        openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$1" -keyout "$1.key" \
            -out "$1.csr" 2>>openssl.log && openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2.key" -CAcreateserial \
            -days 2 -out "$1.pem" 2>>openssl.log || fail "no certificate of $1: $(tail -3 openssl.log)"
    }
    authority ours
    authority theirs
    signed device ours
    signed master ours
    signed stranger theirs
    start_node certified --cert device.pem --cert-key device.key --ca ours.pem
    # as NAME AUTHORITY: what a master says who he is and whom he believes
    as() { identity=(--set cluster.certificate="$1.pem" --set cluster.private_key="$1.key" --set cluster.authority="$2.pem"); }
    as master ours
    run 0 train mlp.yaml --quiet --out certified --node "127.0.0.1:$port" "${identity[@]}"
    same "with certificates" mlp certified
    [ "$(field nodes certified/summary.json)" = 2 ] || fail "with certificates: not on 2 nodes"
    run 0 train mlp.yaml --quiet --out own --nodes 3 "${identity[@]}"
    same "with certificates of our own processes" mlp own
    as stranger theirs
    refuses 1 "127.0.0.1:$port: its certificate is not accepted: " train mlp.yaml --quiet --out never --node "127.0.0.1:$port" "${identity[@]}"
    as stranger ours
    refuses 1 "127.0.0.1:$port: did not accept our certificate: " train mlp.yaml --quiet --out never --node "127.0.0.1:$port" "${identity[@]}"
    refuses 1 "127.0.0.1:$port: one side uses" train mlp.yaml --quiet --out never --node "127.0.0.1:$port"
    says certified.err "its certificate is not accepted: "
    # no_node TEXT WORD...: a node with these does not start, and says why
    no_node() {
        local text=$1 status=0
        shift
        timeout 20 "$RINGTMP" node --listen 127.0.0.1:0 "$@" >out 2>err || status=$?
        [ "$status" -eq 2 ] || fail "node $*: exit status $status, not 2: $(cat out err)"
        says err "$text"
    }
    no_node "master.key: is not an unencrypted private key for device.pem" --cert device.pem --cert-key master.key --ca ours.pem
    no_node "certificates need all three" --cert device.pem --cert-key device.key
    run 0 keygen cluster.key
    no_node "give a cluster key or certificates, not both" --cert device.pem --cert-key device.key --ca ours.pem --key cluster.key
    # whom it has refused does not keep it from those who belong
    as master ours
    run 0 train mlp.yaml --quiet --out again --node "127.0.0.1:$port" "${identity[@]}"
    same "after strangers" mlp again
else
    unseen="there is no openssl to make certificates with"
fi
[ -z "${unseen:-}" ] || [ "$failures" -gt 0 ] || skip "in part: $unseen"
echo "all after $SECONDS s"
finish
