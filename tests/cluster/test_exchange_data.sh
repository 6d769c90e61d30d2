#!/usr/bin/env bash
# Where the workers of an exchange have their examples from: a copy of their own, which is checked and which is looked up
# only where the node allows it.
# labels: threads
. "$(dirname "$0")/lib.sh"
write_models
sed -i '/^cluster:/d' ./*.yaml # what rings need
started=$SECONDS

# ---- data ----
# A node that runs elsewhere has its own copy, in the directory it was started in or was told.
mkdir -p elsewhere other/place wrong
cp images labels other/place
head -c 1000 /dev/zero | tr '\0' '\1' >wrong/noise
cp images wrong/images
cp labels wrong/labels
printf '\7' | dd of=wrong/images bs=1 seek=500 conv=notrunc 2>dd.err
(cd elsewhere && start_node a && echo "$pid $port" >../a) # without any
read -r pid_a port_a <a
children+=("$pid_a")
start_node b --data other/place
pid_b=$pid port_b=$port
start_node c --data wrong --name third
pid_c=$pid port_c=$port
spread alone4 mlp.yaml 2 allreduce-rd --set train.shards=2
rm -rf result
run 0 train mlp.yaml --strategy allreduce-rd --node "127.0.0.1:$port_b" --quiet --out result --set train.shards=2
same "a node with data of its own" alone4 result
refuses 2 "(127.0.0.1:$port_a): " train mlp.yaml --strategy allreduce-rd --node "127.0.0.1:$port_a" --quiet --out refused
says err "the file 'images' is not in ., the directory for data, which \`ringtmp node --data DIR\` sets"
refuses 2 "third (127.0.0.1:$port_c): " train mlp.yaml --strategy ps-sync --node "127.0.0.1:$port_b" --node "127.0.0.1:$port_c" --quiet --out refused
says err "its training data differ from the master's"
# A name that leads out of the directory is not followed.
sed "s,\[images\, labels\],[../place/images\, labels]," mlp.yaml >upwards.yaml
mkdir -p place && cp images place
mkdir -p run && cp upwards.yaml labels run
refuses 2 "(127.0.0.1:$port_b): " train run/upwards.yaml --strategy ps-sync --node "127.0.0.1:$port_b" --quiet --out refused
says err "is not in other/place, the directory for data"
sed "s,\[images\, labels\],[$PWD/images\, labels]," mlp.yaml >absolute.yaml
refuses 2 "(127.0.0.1:$port_b): " train absolute.yaml --strategy ps-sync --node "127.0.0.1:$port_b" --quiet --out refused
says err "is not in other/place, the directory for data"
# Where the run file says so they are sent, and it is told; the result is the same. An auto-encoder and values too.
for strategy in allreduce-rd ps-sync; do
    rm -rf result
    run 0 train mlp.yaml --strategy $strategy --node "127.0.0.1:$port_a" --quiet --out result --set train.shards=2 --set data.send=true
    same "$strategy, examples that are sent" alone4 result
    says result/journal.jsonl "data.send: examples and their targets are sent to 1 worker, about 0.0125 MB in an epoch"
done
rm -rf result
run 0 train mlp.yaml --strategy ps-hier,group=2,base=async --node "127.0.0.1:$port_a" --quiet --out result --set train.shards=2 --set data.send=true
same "a group at its own pace, examples that are sent" alone4 result
rm -rf result
run 0 train mlp.yaml --strategy ps-async --node "127.0.0.1:$port_a" --quiet --out result --set data.send=true
sed 's/cross_entropy/mse/; s/dense: 4\]/dense: 64]/; s/^train:/  target: input\n&/' mlp.yaml >auto.yaml
run 0 train auto.yaml --strategy sgd --quiet --out auto --set train.shards=2
run 0 train auto.yaml --strategy allreduce-hd --node "127.0.0.1:$port_a" --quiet --out auto2 --set train.shards=2 --set data.send=true
same "an auto-encoder, examples that are sent" auto auto2
seq 1 60 | awk '{print $1 / 60 "," ($1 * 7 % 60) / 60 "," ($1 * 7 % 60 + $1) / 120}' >table.csv
cat >values.yaml <<END
model: {input: 2, layers: [dense: 8, tanh, dense: 1], loss: mse}
data: {train: {csv: {file: table.csv, label: 2}}, standardize: true}
train: {batch: 9, updates: 12, shards: 2, threads: 1}
END
run 0 train values.yaml --strategy sgd --quiet --out values
run 0 train values.yaml --strategy allreduce-rd --node "127.0.0.1:$port_a" --quiet --out values2 --set data.send=true
same "values, examples that are sent" values values2
# Converted data are kept where each machine says: local nodes where the master does, another one where --cache says.
start_node d --data . --cache kept-there
pid_d=$pid
export XDG_CACHE_HOME=$PWD/default-cache
run 0 train values.yaml --strategy allreduce-rd --nodes 2 --quiet --out values3 --set data.cache_above=0 --set data.cache_dir=kept-here
same "values from a cache" values values3
[ ! -e default-cache ] && [ "$(ls kept-here | wc -l)" = 1 ] || fail "a local node has a cache of its own: $(ls default-cache)"
run 0 train values.yaml --strategy allreduce-rd --node "127.0.0.1:$port" --quiet --out values4 --set data.cache_above=0 --set data.cache_dir=kept-here
[ ! -e kept-there ] || fail "a node has kept 60 examples in a file because its master said so"
unset XDG_CACHE_HOME
destroy "$pid_d"
# Nothing was left behind by what was refused, and the nodes are still there.
[ ! -e refused ] || fail "a run that was refused has left its directory"
for process in "$pid_a" "$pid_b" "$pid_c"; do
    kill -0 "$process" || fail "a node is gone after a refusal"
    destroy "$process"
done

echo "all after $((SECONDS - started)) s"
finish
