// A double of TiKV and PD: the mock store of TiKV's own client for Go (versions, locks, regions, stores) behind the real gRPC services, so
// that what talks to TiKV can be tested without one. It is not TiKV: nothing is replicated, and nothing is kept.
//
// Its argument is the address of PD. It takes free ports of 127.0.0.1 besides, and prints one line, "admin=ADDRESS". What goes wrong is
// asked for over HTTP at that address:
//
//	/fault?rpc=KvCommit&kind=lost&times=3  the next calls (of any store, or of PD) go wrong: "refused" is not done; "lost" is done, and
//	                                       the answer is an error; "silent" is not done and never answered; "late" is done and never answered;
//	                                       with after=2, the second from then on is the last that goes well. Answers with the times that were
//	                                       left of the fault before it
//	/stop?store=1, /start?store=1          a store (1 to 3) is away; others lead its regions
//	/stop?store=pd, /start?store=pd        PD is away
//	/freeze?ms=5000                        nothing is answered meanwhile
//	/delay?ms=1                            each call takes so much longer
//	/split?parts=64                        the keys that are there lie in so many regions
//	/move                                  each region is led by the next store
//	/ready                                 answers with the number of the process
//	/counts                                calls by name since the last time, as JSON
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"path"
	"strconv"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/tikv/client-go/v2/testutils"
	"github.com/tikv/client-go/v2/tikvrpc"
	pd "github.com/tikv/pd/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// faults says what goes wrong, and counts calls.
type faults struct {
	mutex   sync.Mutex
	next    map[string]*fault
	counts  map[string]int
	delay   time.Duration
	running sync.RWMutex // held for writing while all is frozen
}

type fault struct {
	kind         string
	after, times int
}

// call does a call, unless it goes wrong.
func (f *faults) call(ctx context.Context, name string, do func() (interface{}, error)) (interface{}, error) {
	f.running.RLock()
	f.running.RUnlock()
	f.mutex.Lock()
	f.counts[name]++
	kind, delay := "", f.delay
	if next := f.next[name]; next != nil && next.after > 0 {
		next.after--
	} else if next != nil && next.times > 0 {
		kind = next.kind
		next.times--
	}
	f.mutex.Unlock()
	time.Sleep(delay)
	var answer interface{}
	var err error
	if kind != "refused" && kind != "silent" {
		answer, err = do()
	}
	switch kind {
	case "":
		return answer, err
	case "silent", "late":
		<-ctx.Done()
	}
	return nil, status.Error(codes.Unavailable, "a fault that was asked for: "+kind)
}

func (f *faults) intercept(ctx context.Context, request interface{}, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (interface{}, error) {
	return f.call(ctx, path.Base(info.FullMethod), func() (interface{}, error) { return handler(ctx, request) })
}

// server is a gRPC server that can be stopped and started again at its address.
type server struct {
	address  string
	register func(*grpc.Server)
	faults   *faults
	running  *grpc.Server
}

func (s *server) start() error {
	listener, err := net.Listen("tcp", s.address)
	if err != nil {
		return err
	}
	s.address = listener.Addr().String()
	s.running = grpc.NewServer(grpc.MaxRecvMsgSize(64<<20), grpc.UnaryInterceptor(s.faults.intercept))
	s.register(s.running)
	go s.running.Serve(listener)
	return nil
}

// locks has the keys that transactions have asked to lock, by their start.
type locks struct {
	mutex sync.Mutex
	keys  map[uint64][][]byte
}

func (l *locks) add(q *kvrpcpb.PrewriteRequest) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, mutation := range q.Mutations {
		l.keys[q.StartVersion] = append(l.keys[q.StartVersion], mutation.Key)
	}
}

func (l *locks) take(start uint64) [][]byte {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	keys := l.keys[start]
	delete(l.keys, start)
	return keys
}

// store answers for one of the stores.
type store struct {
	tikvpb.UnimplementedTikvServer
	client *testutils.MockClient
	server *server
	locked *locks
}

func answer[Q any, R any](s *store, ctx context.Context, kind tikvrpc.CmdType, request Q, of *kvrpcpb.Context) (R, error) {
	var none R
	sent := tikvrpc.NewRequest(kind, request)
	if of != nil {
		sent.Context = *of
	}
	response, err := s.client.SendRequest(ctx, s.server.address, sent, 20*time.Second)
	if err != nil {
		return none, status.Error(codes.Unavailable, err.Error())
	}
	if region, err := response.GetRegionError(); err == nil && region != nil {
		refused, err := tikvrpc.GenRegionErrorResp(sent, region)
		if err != nil {
			return none, err
		}
		return refused.Resp.(R), nil
	}
	return response.Resp.(R), nil
}

func (s *store) KvGet(ctx context.Context, q *kvrpcpb.GetRequest) (*kvrpcpb.GetResponse, error) {
	r, err := answer[*kvrpcpb.GetRequest, *kvrpcpb.GetResponse](s, ctx, tikvrpc.CmdGet, q, q.Context)
	if err == nil && r.Error == nil && r.RegionError == nil && r.Value == nil {
		r.NotFound = true // the mock store leaves it unset; TiKV sets it
	}
	return r, err
}
func (s *store) KvScan(ctx context.Context, q *kvrpcpb.ScanRequest) (*kvrpcpb.ScanResponse, error) {
	return answer[*kvrpcpb.ScanRequest, *kvrpcpb.ScanResponse](s, ctx, tikvrpc.CmdScan, q, q.Context)
}
func (s *store) KvBatchGet(ctx context.Context, q *kvrpcpb.BatchGetRequest) (*kvrpcpb.BatchGetResponse, error) {
	return answer[*kvrpcpb.BatchGetRequest, *kvrpcpb.BatchGetResponse](s, ctx, tikvrpc.CmdBatchGet, q, q.Context)
}
func (s *store) KvPrewrite(ctx context.Context, q *kvrpcpb.PrewriteRequest) (*kvrpcpb.PrewriteResponse, error) {
	s.locked.add(q)
	return answer[*kvrpcpb.PrewriteRequest, *kvrpcpb.PrewriteResponse](s, ctx, tikvrpc.CmdPrewrite, q, q.Context)
}
func (s *store) KvCommit(ctx context.Context, q *kvrpcpb.CommitRequest) (*kvrpcpb.CommitResponse, error) {
	return answer[*kvrpcpb.CommitRequest, *kvrpcpb.CommitResponse](s, ctx, tikvrpc.CmdCommit, q, q.Context)
}
func (s *store) KvCheckTxnStatus(ctx context.Context, q *kvrpcpb.CheckTxnStatusRequest) (*kvrpcpb.CheckTxnStatusResponse, error) {
	r, err := answer[*kvrpcpb.CheckTxnStatusRequest, *kvrpcpb.CheckTxnStatusResponse](s, ctx, tikvrpc.CmdCheckTxnStatus, q, q.Context)
	if err == nil && r.LockTtl > 0 && r.LockInfo == nil {
		// as above
		r.LockInfo = &kvrpcpb.LockInfo{PrimaryLock: q.PrimaryKey, LockVersion: q.LockTs, Key: q.PrimaryKey, LockTtl: r.LockTtl}
	}
	return r, err
}
func (s *store) KvBatchRollback(ctx context.Context, q *kvrpcpb.BatchRollbackRequest) (*kvrpcpb.BatchRollbackResponse, error) {
	return answer[*kvrpcpb.BatchRollbackRequest, *kvrpcpb.BatchRollbackResponse](s, ctx, tikvrpc.CmdBatchRollback, q, q.Context)
}
func (s *store) KvScanLock(ctx context.Context, q *kvrpcpb.ScanLockRequest) (*kvrpcpb.ScanLockResponse, error) {
	return answer[*kvrpcpb.ScanLockRequest, *kvrpcpb.ScanLockResponse](s, ctx, tikvrpc.CmdScanLock, q, q.Context)
}
func (s *store) KvResolveLock(ctx context.Context, q *kvrpcpb.ResolveLockRequest) (*kvrpcpb.ResolveLockResponse, error) {
	if len(q.TxnInfos) > 0 || len(q.Keys) > 0 {
		return answer[*kvrpcpb.ResolveLockRequest, *kvrpcpb.ResolveLockResponse](s, ctx, tikvrpc.CmdResolveLock, q, q.Context)
	}
	// The mock store looks at every key of the region. A key that has no lock of the transaction any more is refused, and left as it is.
	for _, key := range s.locked.take(q.StartVersion) {
		if q.CommitVersion > 0 {
			s.client.MvccStore.Commit([][]byte{key}, q.StartVersion, q.CommitVersion)
		} else {
			s.client.MvccStore.Rollback([][]byte{key}, q.StartVersion)
		}
	}
	return &kvrpcpb.ResolveLockResponse{}, nil
}

// UnsafeDestroyRange removes what all stores have, as the first of them is asked.
func (s *store) UnsafeDestroyRange(_ context.Context, q *kvrpcpb.UnsafeDestroyRangeRequest) (*kvrpcpb.UnsafeDestroyRangeResponse, error) {
	return &kvrpcpb.UnsafeDestroyRangeResponse{}, s.client.MvccStore.DeleteRange(q.StartKey, q.EndKey)
}

// placement answers for PD.
type placement struct {
	pdpb.UnimplementedPDServer
	client  pd.Client
	cluster *testutils.MockCluster
	server  *server
}

func header() *pdpb.ResponseHeader { return &pdpb.ResponseHeader{ClusterId: 42} }

func (p *placement) GetMembers(context.Context, *pdpb.GetMembersRequest) (*pdpb.GetMembersResponse, error) {
	url := []string{"http://" + p.server.address}
	member := &pdpb.Member{Name: "pd", MemberId: 1, ClientUrls: url, PeerUrls: url}
	return &pdpb.GetMembersResponse{Header: header(), Members: []*pdpb.Member{member}, Leader: member, EtcdLeader: member}, nil
}
func (p *placement) Tso(stream pdpb.PD_TsoServer) error {
	for {
		request, err := stream.Recv()
		if err != nil {
			return nil
		}
		response, err := p.server.faults.call(stream.Context(), "Tso", func() (interface{}, error) {
			var physical, logical int64
			for i := uint32(0); i < request.Count; i++ {
				physical, logical, _ = p.client.GetTS(stream.Context())
			}
			now := &pdpb.Timestamp{Physical: physical, Logical: logical}
			return &pdpb.TsoResponse{Header: header(), Count: request.Count, Timestamp: now}, nil
		})
		if err != nil {
			return err
		}
		if err := stream.Send(response.(*pdpb.TsoResponse)); err != nil {
			return err
		}
	}
}
func region(r *metapb.Region, leader *metapb.Peer) (*pdpb.GetRegionResponse, error) {
	return &pdpb.GetRegionResponse{Header: header(), Region: r, Leader: leader}, nil
}
func (p *placement) GetRegion(_ context.Context, q *pdpb.GetRegionRequest) (*pdpb.GetRegionResponse, error) {
	r, leader, _ := p.cluster.GetRegionByKey(q.RegionKey)
	return region(r, leader)
}
func (p *placement) GetPrevRegion(_ context.Context, q *pdpb.GetRegionRequest) (*pdpb.GetRegionResponse, error) {
	r, leader, _ := p.cluster.GetPrevRegionByKey(q.RegionKey)
	return region(r, leader)
}
func (p *placement) GetRegionByID(_ context.Context, q *pdpb.GetRegionByIDRequest) (*pdpb.GetRegionResponse, error) {
	r, leader, _ := p.cluster.GetRegionByID(q.RegionId)
	return region(r, leader)
}
func (p *placement) GetStore(_ context.Context, q *pdpb.GetStoreRequest) (*pdpb.GetStoreResponse, error) {
	return &pdpb.GetStoreResponse{Header: header(), Store: p.cluster.GetStore(q.StoreId)}, nil
}
func (p *placement) GetAllStores(context.Context, *pdpb.GetAllStoresRequest) (*pdpb.GetAllStoresResponse, error) {
	return &pdpb.GetAllStoresResponse{Header: header(), Stores: p.cluster.GetAllStores()}, nil
}
func (p *placement) UpdateGCSafePoint(ctx context.Context, q *pdpb.UpdateGCSafePointRequest) (*pdpb.UpdateGCSafePointResponse, error) {
	safe, err := p.client.UpdateGCSafePoint(ctx, q.SafePoint)
	return &pdpb.UpdateGCSafePointResponse{Header: header(), NewSafePoint: safe}, err
}

// double is all of it.
type double struct {
	faults  *faults
	client  *testutils.MockClient
	pd      pd.Client
	cluster *testutils.MockCluster
	servers map[string]*server
	ids     map[string]uint64
}

// leave has the next store lead each region that a store leads; of store 0, each region.
func (d *double) leave(store uint64) {
	for _, each := range d.cluster.GetAllRegions() {
		meta, leader := d.cluster.GetRegion(each.Meta.Id)
		for i, peer := range meta.Peers {
			if peer.Id == leader && (store == 0 || peer.StoreId == store) {
				d.cluster.ChangeLeader(meta.Id, meta.Peers[(i+1)%len(meta.Peers)].Id)
				break
			}
		}
	}
}

func (d *double) stop(name string) {
	if id := d.ids[name]; id != 0 {
		d.leave(id)
		d.cluster.StopStore(id)
	}
	d.servers[name].running.Stop()
}

func (d *double) start(name string) error {
	if id := d.ids[name]; id != 0 {
		d.cluster.StartStore(id)
	}
	return d.servers[name].start()
}

// split divides the keys that are there among so many regions, and returns how many there are then.
func (d *double) split(parts int) int {
	pairs := d.client.MvccStore.Scan(nil, nil, math.MaxInt32, math.MaxUint64, kvrpcpb.IsolationLevel_SI, nil) // locked ones, too
	for part := 1; part < parts; part++ {
		key := pairs[len(pairs)*part/parts].Key
		within, _, _ := d.cluster.GetRegionByKey(encoded(key))
		if string(within.StartKey) == string(encoded(key)) {
			continue
		}
		peers := d.cluster.AllocIDs(len(d.ids))
		d.cluster.Split(within.Id, d.cluster.AllocID(), key, peers, peers[part%len(peers)])
	}
	return len(d.cluster.GetAllRegions())
}

// encoded returns a key as it is in the borders of regions: groups of eight bytes and a marker.
func encoded(key []byte) []byte {
	var out []byte
	for begin := 0; begin <= len(key); begin += 8 {
		group := make([]byte, 9)
		taken := copy(group[:8], key[begin:])
		group[8] = byte(0xff - (8 - taken))
		out = append(out, group...)
	}
	return out
}

// put writes a key, as a program would that knows nothing of the others.
func (d *double) put(key, value []byte) error {
	physical, logical, _ := d.pd.GetTS(context.Background())
	start := uint64(physical<<18 + logical)
	mutations := []*kvrpcpb.Mutation{{Op: kvrpcpb.Op_Put, Key: key, Value: value}}
	request := &kvrpcpb.PrewriteRequest{Mutations: mutations, PrimaryLock: key, StartVersion: start, LockTtl: 1000}
	for _, err := range d.client.MvccStore.Prewrite(request) {
		if err != nil {
			return err
		}
	}
	return d.client.MvccStore.Commit([][]byte{key}, start, start+1)
}

func (d *double) administer(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	number := func(name string) int {
		value, _ := strconv.Atoi(query.Get(name))
		return value
	}
	f := d.faults
	switch r.URL.Path {
	case "/ready":
		fmt.Fprintln(w, os.Getpid())
	case "/fault":
		f.mutex.Lock()
		if old := f.next[query.Get("rpc")]; old != nil {
			fmt.Fprintln(w, old.times)
		}
		f.next[query.Get("rpc")] = &fault{query.Get("kind"), number("after"), number("times")}
		f.mutex.Unlock()
	case "/stop":
		d.stop(query.Get("store"))
	case "/start":
		if err := d.start(query.Get("store")); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	case "/freeze":
		f.running.Lock()
		time.Sleep(time.Duration(number("ms")) * time.Millisecond)
		f.running.Unlock()
	case "/delay":
		f.mutex.Lock()
		f.delay = time.Duration(number("ms")) * time.Millisecond
		f.mutex.Unlock()
	case "/split":
		fmt.Fprintln(w, d.split(number("parts")))
	case "/move":
		d.leave(0)
	case "/put":
		must(d.put([]byte(query.Get("key")), []byte(query.Get("value"))))
	case "/counts":
		f.mutex.Lock()
		json.NewEncoder(w).Encode(f.counts)
		f.counts = map[string]int{}
		f.mutex.Unlock()
	default:
		http.NotFound(w, r)
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// free is the address of a free port.
const free = "127.0.0.1:0"

func main() {
	client, cluster, pdClient, err := testutils.NewMockTiKV("", nil)
	must(err)
	f := &faults{next: map[string]*fault{}, counts: map[string]int{}}
	d := &double{f, client, pdClient, cluster, map[string]*server{}, map[string]uint64{}}
	add := func(name, address string, register func(*server) func(*grpc.Server)) *server {
		s := &server{address: address, faults: f}
		s.register = register(s)
		d.servers[name] = s
		must(s.start())
		return s
	}
	locked := &locks{keys: map[uint64][][]byte{}}
	var stores, peers []uint64
	for i := 1; i <= 3; i++ {
		name, id := strconv.Itoa(i), cluster.AllocID()
		s := add(name, free, func(s *server) func(*grpc.Server) {
			return func(g *grpc.Server) { tikvpb.RegisterTikvServer(g, &store{client: client, server: s, locked: locked}) }
		})
		cluster.AddStore(id, s.address)
		d.ids[name] = id
		stores, peers = append(stores, id), append(peers, cluster.AllocID())
	}
	cluster.Bootstrap(cluster.AllocID(), stores, peers, peers[0])
	add("pd", os.Args[1], func(s *server) func(*grpc.Server) {
		return func(g *grpc.Server) {
			pdpb.RegisterPDServer(g, &placement{client: pdClient, cluster: cluster, server: s})
		}
	})
	admin, err := net.Listen("tcp", free)
	must(err)
	fmt.Printf("admin=%s\n", admin.Addr())
	must(http.Serve(admin, http.HandlerFunc(d.administer)))
}
