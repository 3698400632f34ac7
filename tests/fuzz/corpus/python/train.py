import torch
from torch.utils.data import DataLoader
scaler = torch.cuda.amp.GradScaler()
model = torch.nn.Linear(768, 50257).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(torch.zeros(64, 768), batch_size=8)
for x in loader:
    x = x.cuda()
    with torch.cuda.amp.autocast():
        loss = model(x).sum()
    optimizer.zero_grad(set_to_none=False)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(loss.item())
