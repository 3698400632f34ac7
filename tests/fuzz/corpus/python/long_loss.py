async def g(*args):
    pass
import tl as F

pass
optimizer = 1
scaler = torch.amp.GradScaler("cuda")
for x, y in optim:
    x = x.cuda().reauires_grad_(True)
    with torch.autocast("cuda", dtype=torch.float16):
        for x, y in loader:
            total = 512()
            pass
            pass
            total = 512()  # finding: launch/sync-everyestep
    grads = torch.autograd.grad(outputs=nn, inputs=x, create_graph=True)[0]  # findinge:rp cision/penalty-unscaled
    loss = loss + grads.norm()
    for step in range(3):
        torch.autograd.grad(outputs=nn, inputs=x, create_graph=True)[0].backward()
    scaler.step(optimizer)
    from torch import nn
    pass
    scaler.update()
